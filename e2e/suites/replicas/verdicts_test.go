//go:build e2e

package replicas_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// managers are the labels of the gated Deployments of controller managers.
var managers = map[string]string{"app": "controller-manager"}

// testReview is a review that one of the gates gets, with the fields that differ between reviews.
type testReview struct {
	about, path string
	// decision and reason are the values of the audit annotations. patched is true if the verdict changes the object.
	decision, reason string
	patched          bool

	// by is the name of the author, "" for an administrator.
	by string
	// was is the old object, nil on creation.
	was, is runtime.Object
	// cloudFails is true if the cloud responds to no request.
	cloudFails bool
}

// testReviews contain each kind of verdict of the gates.
func (s story) testReviews() []testReview {
	const (
		machines, clusters, policies = "/machine/ownership", "/cluster/impersonation", "/keystone/policy"
		identity, environment        = "/controllermanager/identity", "/controllermanager/integrity"
		rewrite, notice, denial      = "/workspace/owner-rewrite", "/workspace/owner-notice", "/workspace/denial-notice"
	)
	server := func(owner cloudsigmatest.User, name string) string {
		return s.cloud.AddServer(region, owner, name).UUID
	}
	plain, empty := machine(s.namespace, "reviewed", "pool"), policy(s.namespace, "reviewed", "")
	empty.Data = nil
	return []testReview{
		{
			about: "a machine that names its user's own server", path: machines, decision: "allowed", reason: "Owned",
			was: plain, is: naming(plain, server(s.user, "reviewed-own")),
		},
		{
			about: "a machine that names a server of another user", path: machines, decision: "denied", reason: "InstanceNotOwned",
			was: plain, is: naming(plain, s.foreign),
		},
		{
			about: "a machine that names a server that does not exist", path: machines, decision: "denied", reason: "InstanceNotFound",
			was: plain, is: naming(plain, "5a2b0c1e-0000-4000-8000-000000000001"),
		},
		{
			about: "a machine that names what is no server", path: machines, decision: "denied", reason: "InstanceIDInvalid",
			was: plain, is: naming(plain, "server-1"),
		},
		{
			about: "a machine of no cluster", path: machines, decision: "denied", reason: "MachineWithoutCluster",
			was: machine(s.namespace, "reviewed", ""), is: naming(machine(s.namespace, "reviewed", ""), s.foreign),
		},
		{
			about: "a machine whose cluster does not exist", path: machines, decision: "denied", reason: "ClusterMissing",
			was: machine(s.namespace, "reviewed", "none"), is: naming(machine(s.namespace, "reviewed", "none"), s.foreign),
		},
		{
			about: "a machine that names a server while the cloud fails", path: machines, decision: "error", reason: "OwnershipUnknown", cloudFails: true,
			was: plain, is: naming(plain, server(s.user, "reviewed-unknown")),
		},
		{
			about: "a machine that names no server", path: machines, decision: "allowed", reason: "NothingClaimed", was: naming(plain, s.foreign), is: plain,
		},
		{
			about: "a cluster of an administrator", path: clusters, decision: "allowed", reason: "ImpersonationAllowed", is: cluster(s.namespace, "reviewed", s.user.Email),
		},
		{
			about: "a cluster of who may not act as its user", path: clusters, decision: "denied", reason: "ImpersonationNotAllowed", by: authorName,
			is: cluster(s.namespace, "reviewed", s.user.Email),
		},
		{about: "a sound policy", path: policies, decision: "allowed", reason: "KeystonePolicySound", is: policy(s.namespace, "reviewed", sound)},
		{about: "a broken policy", path: policies, decision: "denied", reason: "KeystonePolicyBroken", is: policy(s.namespace, "reviewed", broken)},
		{
			about: "a doubtful policy", path: policies, decision: "warned", reason: "KeystonePolicyDoubtful",
			is: policy(s.namespace, "reviewed", "identity:create_user: rule:admin_required and domain_idd:x\n"),
		},
		{about: "no policy where there has to be one", path: policies, decision: "warned", reason: "KeystonePolicyMissing", is: empty},
		{
			about: "a policy that is too large", path: policies, decision: "denied", reason: "KeystonePolicyTooLarge",
			is: policy(s.namespace, "reviewed", strings.Repeat("# nothing\n", 1<<15)),
		},
		{
			about: "a controller manager without an identity", path: identity, decision: "allowed", reason: "IdentityGiven", patched: true,
			is: manager(s.namespace, ""),
		},
		{
			about: "a controller manager with another's", path: identity, decision: "denied", reason: "UserEmailMismatch", is: manager(s.namespace, "other@example.com"),
		},
		{
			about: "a controller manager without an identity, at the end", path: environment, decision: "denied", reason: "ImpersonationNotEnabled",
			is: manager(s.namespace, ""),
		},
		{
			about: "a workspace of a service account", path: rewrite, decision: "allowed", reason: "ServiceAccountRewritten", patched: true,
			was: workspace(foreignOwner), is: workspace(foreignOwner),
		},
		{
			about: "a workspace whose owner is another now", path: denial, decision: "allowed", reason: "OwnerChangeDenied", by: authorName,
			was: workspace(`{"username":"bob"}`), is: workspace(`{"username":"author"}`),
		},
		{
			about: "a workspace of an administrator", path: notice, decision: "allowed", reason: "PrivilegedOwner",
			was: workspace(`{"username":"root","groups":["system:masters"]}`), is: workspace(`{"username":"root","groups":["system:masters"]}`),
		},
	}
}

// foreignOwner is the owner that kcp records for a service account of another logical cluster.
const foreignOwner = `{"username":"system:serviceaccount:default:bot","groups":["system:serviceaccounts","system:authenticated"],` +
	`"extra":{"authentication.kcp.io/cluster-name":["2ywlydr578o3cskl"]}}`

// naming is a machine with a server in its status.
func naming(machine *unstructured.Unstructured, uuid string) *unstructured.Unstructured {
	GinkgoHelper()
	named := machine.DeepCopy()
	Expect(unstructured.SetNestedField(named.Object, uuid, "status", "instanceID")).To(Succeed())
	return named
}

// manager is the controller manager of the cluster of a story. It acts as a user, or has no identity if there is no email address.
func manager(namespace, email string) *appsv1.Deployment {
	container := corev1.Container{Name: "manager", Image: "cloud-controller-manager"}
	if email != "" {
		container.Env = []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: email}}
	}
	labels := map[string]string{"cluster.x-k8s.io/cluster-name": "pool"}
	for key, value := range managers {
		labels[key] = value
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reviewed", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: managers},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: managers}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		},
	}
}

// workspace is a workspace of an owner, after kcp has placed it.
func workspace(owner string) *unstructured.Unstructured {
	placed := &unstructured.Unstructured{}
	placed.SetAPIVersion("tenancy.kcp.io/v1alpha1")
	placed.SetKind("Workspace")
	placed.SetName("reviewed")
	placed.SetAnnotations(map[string]string{
		"experimental.tenancy.kcp.io/owner": owner, "internal.tenancy.kcp.io/cluster": "9fua6fju0ojzrp4y", "kcp.io/cluster": "2ywlydr578o3cskl",
	})
	return placed
}

// review is the AdmissionReview of an API server.
func (q testReview) review() []byte {
	GinkgoHelper()
	object, ok := q.is.(metav1.Object)
	Expect(ok).To(BeTrue())
	object.SetUID("6a1b")
	user := authenticationv1.UserInfo{Username: "kubetest-admin", Groups: []string{"system:masters", "system:authenticated"}}
	if q.by != "" {
		user = authenticationv1.UserInfo{Username: q.by, Groups: []string{"system:authenticated"}}
	}
	request := &admissionv1.AdmissionRequest{
		UID: types.UID("16e3ec3f-c1a0-49ed-9151-5b4b4cd743b5"), Operation: admissionv1.Create, UserInfo: user, DryRun: ptr.To(false),
		Namespace: object.GetNamespace(), Name: object.GetName(), Object: encoded(q.is),
	}
	if q.was != nil {
		request.Operation, request.OldObject = admissionv1.Update, encoded(q.was)
	}
	kind := q.is.GetObjectKind().GroupVersionKind()
	request.Kind = metav1.GroupVersionKind(kind)
	request.Resource = metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request,
	})
	Expect(err).NotTo(HaveOccurred())
	return review
}

func encoded(object runtime.Object) runtime.RawExtension {
	GinkgoHelper()
	raw, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: raw}
}

// cloudRequest is the part of a message with the cloud's ID of a request. Each replica sends its own requests.
var cloudRequest = regexp.MustCompile(`request id ([0-9A-Za-z-]+)`)

// answer is the response of a replica, without an API server and without the cloud's request IDs. The verdict must be the expected
// one.
func (q testReview) answer(ctx context.Context, r *replica) string {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.webhook+"/"+token+q.path+"?timeout=3s", bytes.NewReader(q.review()))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.world.ca.PEM())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: release + "." + namespace + ".svc", MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK), "%s", body)

	var review admissionv1.AdmissionReview
	Expect(json.Unmarshal(body, &review)).To(Succeed(), "%s", body)
	Expect(review.Response).NotTo(BeNil())
	Expect(review.Response.AuditAnnotations).To(And(HaveKeyWithValue("decision", q.decision), HaveKeyWithValue("reason", q.reason)), "%s", body)
	Expect(review.Response.Patch != nil).To(Equal(q.patched), "%s", body)
	text := string(body)
	for _, id := range cloudRequest.FindAllStringSubmatch(text, -1) {
		text = strings.ReplaceAll(text, id[1], "ID")
	}
	return text
}

// answerAlike sends all reviews to two replicas, and compares their whole responses. If a release changes a message, its notes and this
// test say so.
func (s story) answerAlike(ctx context.Context, load *load, one, other *replica) {
	GinkgoHelper()
	for _, q := range s.testReviews() {
		By(q.about)
		answerAll := func() {
			GinkgoHelper()
			Expect(q.answer(ctx, one)).To(Equal(q.answer(ctx, other)))
		}
		if !q.cloudFails {
			answerAll()
			continue
		}
		load.between(func() { // this also sends requests to the cloud
			failing := s.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, cloudsigmatest.GetServer)
			defer failing.Release()
			answerAll()
		})
	}
}
