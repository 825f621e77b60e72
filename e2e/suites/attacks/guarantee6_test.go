//go:build e2e

package attacks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/env/warrantgatetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// gatePaths are the paths of all gates.
var gatePaths = []string{
	"/cluster/delegation", "/cluster/impersonation", "/controllermanager/identity", "/controllermanager/integrity", "/kcp/root/cluster/impersonation",
	"/kcp/root/machine/ownership", "/keystone/policy", "/machine/ownership", "/workspace/denial-notice", "/workspace/owner-notice",
	"/workspace/owner-rewrite",
}

// forgedPaths are the paths that a caller without the token tries, with a part of the token guessed.
func forgedPaths(token, path string) []string {
	wrong := warrantgatetest.NewToken()
	return []string{
		path, "/" + wrong + path, "/" + token[:len(token)-1] + path, "/" + token + "0" + path, "/" + strings.ToUpper(token) + path,
		"//" + token + path, "/" + token + "/" + path, "/" + token + "%2F" + path[1:], "/%2F" + token + path, "/" + token + "/.." + path,
		"/./" + token + path, "/" + token + "/." + path, path + "?token=" + token, path + "/", "/" + token + path + "/", "/" + token, "/",
	}
}

var _ = Describe("guarantee 6: only API servers get verdicts", func() {
	It("a caller with network access gets 404 for every path, and no gate runs", func(ctx SpecContext) {
		w := kube(ctx)
		victim := w.editor(ctx, w.namespace(ctx))
		owner := w.user("victim-of-6@example.com")
		w.permit(ctx, victim.name, owner.Email)
		Expect(victim.client.Create(ctx, newCluster(victim.namespace, "pool", owner.Email))).To(Succeed())
		stranger := w.server(w.user("stranger-of-6@example.com"), "worker")
		token := w.token()
		body := review(newMachine(victim.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + stranger.UUID}))

		By("sending a review with the token, as an API server does")
		answer, text := w.post(ctx, true, "/"+token+"/machine/ownership", body)
		Expect(answer.StatusCode).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring(owner.Email), "the verdict does not contain the data")

		By("sending reviews without the token")
		before, err := w.gate.Metric(ctx, "warrantgate_admissions_total", nil)
		Expect(err).NotTo(HaveOccurred())
		denied, err := w.gate.Metric(ctx, "warrantgate_rejected_callers_total", nil)
		Expect(err).NotTo(HaveOccurred())
		sent := 0
		for _, path := range gatePaths {
			for _, target := range forgedPaths(token, path) {
				for _, http2 := range []bool{false, true} {
					sent++
					answer, text := w.post(ctx, http2, target, body)
					answer.Header.Del("Date")
					Expect(answer.StatusCode).To(Equal(http.StatusNotFound), target)
					Expect(text).To(BeEmpty(), target)
					answer.Header.Del("Connection") // HTTP/2 has no such field
					Expect(answer.Header).To(Equal(http.Header{"Content-Length": {"0"}}), target)
				}
			}
		}
		Expect(w.gate.Metric(ctx, "warrantgate_admissions_total", nil)).To(Equal(before))
		// An API server of another suite may call the port that its warrantgate had.
		Expect(w.gate.Metric(ctx, "warrantgate_rejected_callers_total", nil)).To(BeNumerically(">=", denied+float64(sent)))
		Expect(strings.Count(suite.Log(w.gate), "denied a caller")).To(BeNumerically("<=", 3), "callers can fill the log")
	}, SpecTimeout(startTimeout))

	It("a token is replaced without a failed admission", func(ctx SpecContext) {
		w := kube(ctx)
		author := w.editor(ctx, w.namespace(ctx))
		load, end := context.WithCancel(ctx)
		defer end()
		var made atomic.Int64
		failed := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			for load.Err() == nil {
				err := author.client.Create(load, policyMap(author.namespace, "load", `"identity:list_users": "!"`), client.DryRunAll)
				if err != nil && load.Err() == nil {
					failed <- err
					return
				}
				made.Add(1)
			}
		}()
		more := func() {
			GinkgoHelper()
			least := made.Load() + int64(volume.Of(10, 50))
			Eventually(made.Load).Should(BeNumerically(">", least))
			Expect(failed).NotTo(Receive())
		}
		accepted := func(token string, want int) {
			GinkgoHelper()
			Eventually(func() int {
				answer, _ := w.post(ctx, false, "/"+token+"/keystone/policy", []byte("{}"))
				return answer.StatusCode
			}).Should(Equal(want))
		}
		before, after := w.token(), warrantgatetest.NewToken()
		more()
		By("adding a new token to the file")
		w.writeTokens(before, after)
		accepted(after, http.StatusOK)
		more()
		By("writing it into the webhook configurations")
		w.writeTokens(after, before)
		w.install(ctx)
		registered := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: "warrantgate"}, registered)).To(Succeed())
		for _, hook := range registered.Webhooks {
			Expect(*hook.ClientConfig.URL).To(HavePrefix(w.gate.URL() + "/" + after + "/"))
		}
		more()
		w.slowWebhook(ctx, author.namespace) // the API server observes configurations in order, so that it has also observed the token
		By("removing the old token")
		w.writeTokens(after)
		accepted(before, http.StatusNotFound)
		more()
		end()
		Expect(suite.Log(w.gate)).NotTo(Or(ContainSubstring(before), ContainSubstring(after)))
	}, SpecTimeout(startTimeout))

	It("a tenant does not learn the token from an API server with a short timeout", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		own := w.user("slow-of-6@example.com")
		w.permit(ctx, attacker.name, own.Email)
		Expect(attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email))).To(Succeed())
		slow := w.cloud.Fail(cloudsigmatest.Hang(), 0, cloudsigmatest.GetServer)
		defer slow.Release()
		caller, err := rest.HTTPClientFor(attacker.config)
		Expect(err).NotTo(HaveOccurred())
		token, texts := w.token(), map[string]int{}
		for millis := 1; millis < 200; millis += volume.Of(9, 2) {
			machine := newMachine(attacker.namespace, "worker", "pool", map[string]any{"providerID": fmt.Sprintf("cloudsigma://00000000-0000-4000-8000-%012d", millis)})
			body, err := json.Marshal(machine)
			Expect(err).NotTo(HaveOccurred())
			url := fmt.Sprintf("%s/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/%s/cloudsigmamachines?dryRun=All&timeout=%dms",
				strings.TrimSuffix(attacker.config.Host, "/"), attacker.namespace, millis)
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Content-Type", "application/json")
			response, err := caller.Do(request)
			if err != nil { // the API server can cancel a request after its timeout
				texts["broken off"]++
				continue
			}
			text, _ := io.ReadAll(response.Body) // or it responds
			Expect(response.Body.Close()).To(Succeed())
			Expect(string(text)).NotTo(ContainSubstring(token), "timeout=%dms", millis)
			texts[fmt.Sprint(response.StatusCode)]++
		}
		AddReportEntry("answers to short timeouts", texts)
	}, SpecTimeout(startTimeout))

	It("an API server that cannot reach warrantgate returns the token to the requester, as the README says, until an operator replaces it", func(ctx SpecContext) {
		w := kube(ctx)
		author := w.editor(ctx, w.namespace(ctx))
		before := w.token()
		Expect(w.gate.Stop()).To(Succeed())
		write := func() error {
			return author.client.Create(ctx, policyMap(author.namespace, "away", `"identity:list_users": "!"`), client.DryRunAll)
		}
		By("by a URL")
		Expect(write()).To(MatchError(ContainSubstring(`failed to call webhook: Post "` + w.gate.URL() + "/" + before + "/keystone/policy")))
		By("with a Service")
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "gate"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: 9443}}},
		}
		Expect(w.admin.Create(ctx, service)).To(Succeed())
		registered := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: "warrantgate"}, registered)).To(Succeed())
		for i := range registered.Webhooks {
			config := &registered.Webhooks[i].ClientConfig
			path := strings.TrimPrefix(*config.URL, w.gate.URL())
			config.URL, config.Service = nil, &admissionregistrationv1.ServiceReference{
				Namespace: service.Namespace, Name: service.Name, Path: &path, Port: ptr.To[int32](9443),
			}
		}
		Expect(w.admin.Update(ctx, registered)).To(Succeed())
		Eventually(write).Should(MatchError(ContainSubstring(`failed to call webhook: Post "https://gate.default.svc:9443/` + before + `/keystone/policy`)))

		By("replacing the token")
		after := warrantgatetest.NewToken()
		w.writeTokens(after)
		Expect(w.gate.Start(ctx)).To(Succeed())
		Expect(w.admin.Delete(ctx, registered)).To(Succeed())
		w.install(ctx)
		Eventually(write).Should(Succeed())
		w.awaitGates(ctx)
		answer, _ := w.post(ctx, false, "/"+before+"/keystone/policy", []byte("{}"))
		Expect(answer.StatusCode).To(Equal(http.StatusNotFound))
	}, SpecTimeout(startTimeout))
})

// policyMap is a ConfigMap with a policy for Keystone.
func policyMap(namespace, name, policy string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"holds": "keystone-policy"}},
		Data:       map[string]string{"policy.yaml": policy + "\n"},
	}
}

// token is the token in the webhook configurations.
func (w *kubeWorld) token() string {
	GinkgoHelper()
	content, err := os.ReadFile(w.gate.PathFile())
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(string(content))[0]
}

func (w *kubeWorld) writeTokens(tokens ...string) {
	GinkgoHelper()
	Expect(os.WriteFile(w.gate.PathFile(), []byte(strings.Join(tokens, "\n")+"\n"), 0o600)).To(Succeed())
}

// review is the review that an API server sends for a new object, as a dry run.
func review(object runtime.Object) []byte {
	GinkgoHelper()
	raw, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	kind := object.GetObjectKind().GroupVersionKind()
	named, ok := object.(metav1.Object)
	Expect(ok).To(BeTrue())
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "6", Operation: admissionv1.Create, DryRun: ptr.To(true), Namespace: named.GetNamespace(), Name: named.GetName(),
			Kind:     metav1.GroupVersionKind(kind),
			Resource: metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return body
}

// post is postTo for the warrantgate of this world.
func (w *kubeWorld) post(ctx context.Context, http2 bool, target string, body []byte) (answer *http.Response, text string) {
	GinkgoHelper()
	return postTo(ctx, w.gate, http2, target, body)
}

// served is a warrantgate that runs.
type served interface {
	URL() string
	CAFile() string
}

// postTo sends a request with an unmodified target to the port of a warrantgate, on its own connection.
func postTo(ctx context.Context, gate served, http2 bool, target string, body []byte) (answer *http.Response, text string) {
	GinkgoHelper()
	ca, err := os.ReadFile(gate.CAFile())
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: http2,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gate.URL(), bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	path, query, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "//") { // with Opaque, these would name a server
		request.URL.Path, request.URL.RawQuery = path, query
	} else {
		request.URL.Opaque, request.URL.RawQuery = path, query
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err = (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred(), target)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	if http2 {
		Expect(answer.ProtoMajor).To(Equal(2))
	}
	return answer, string(content)
}
