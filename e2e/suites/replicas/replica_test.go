//go:build e2e

package replicas_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// tlsFolder is the folder of the serving certificate, below that of a replica.
const tlsFolder = "tls"

// replica is a pod of the chart's Deployment as a process, with its arguments and files, as its service account. Only its folder and
// its ports differ, because all share this machine.
type replica struct {
	world                    *world
	edition                  edition
	dir                      string
	webhook, metrics, health string
	process                  *process.Process
	backend                  *backend
}

// newReplica prepares a replica with its files. Call start next.
func (w *world) newReplica(ctx context.Context) *replica {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	dir, err := os.MkdirTemp(w.api.Dir(), "pod-")
	Expect(err).NotTo(HaveOccurred())
	r := &replica{
		world: w, edition: w.installed, dir: dir,
		webhook: process.Loopback(ports[0]), metrics: process.Loopback(ports[1]), health: process.Loopback(ports[2]),
	}
	Expect(podtest.Mount(ctx, w.admin, namespace, r.edition.pod, dir)).To(Succeed())
	Expect(os.RemoveAll(filepath.Join(dir, tlsFolder))).To(Succeed())
	Expect(os.Mkdir(filepath.Join(dir, tlsFolder), 0o700)).To(Succeed())
	r.mountCertificate(w.serving)
	r.backend = w.balancer.add(ctx, r.webhook, "http://"+r.health+"/readyz")
	DeferCleanup(r.stop)
	return r
}

// mountCertificate replaces the files of the Secret of the serving certificate as a kubelet does, by an atomic change of a symbolic
// link.
func (r *replica) mountCertificate(pair access.KeyPair) {
	GinkgoHelper()
	tlsDir := filepath.Join(r.dir, tlsFolder)
	data, err := os.MkdirTemp(tlsDir, "..data-")
	Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
		Expect(os.WriteFile(filepath.Join(data, name), content, 0o600)).To(Succeed())
		Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(tlsDir, name))).To(Or(Succeed(), MatchError(os.ErrExist)))
	}
	link := filepath.Join(tlsDir, "..data")
	before, _ := os.Readlink(link) // there is none at first
	Expect(os.Symlink(filepath.Base(data), link+"_tmp")).To(Succeed())
	Expect(os.Rename(link+"_tmp", link)).To(Succeed())
	if before != "" {
		Expect(os.RemoveAll(filepath.Join(tlsDir, before))).To(Succeed())
	}
}

// start runs serve with the arguments of the Deployment, and does not wait.
func (r *replica) start() {
	GinkgoHelper()
	args := podtest.Args(r.edition.pod.Containers[0], r.dir, map[string]string{":9443": r.webhook, ":8080": r.metrics, ":8081": r.health})
	var err error
	r.process, err = process.Start(process.Options{Name: "warrantgate", LogFile: r.LogFile(), Binary: r.edition.binary, Args: args})
	Expect(err).NotTo(HaveOccurred())
}

// serve starts the replica and returns once it gets new connections.
func (r *replica) serve(ctx context.Context) {
	GinkgoHelper()
	r.start()
	r.awaitServing(ctx)
}

func (r *replica) awaitServing(ctx context.Context) {
	GinkgoHelper()
	Expect(r.process.WaitReady(ctx, "http://"+r.health+"/readyz", &rest.Config{})).To(Succeed())
	Eventually(r.isReady).WithContext(ctx).Should(BeTrue())
}

func (r *replica) isReady() bool { return r.world.balancer.isReady(r.backend) }

// live is the response to the liveness probe.
func (r *replica) live(ctx context.Context) bool { return answers(ctx, "http://"+r.health+"/healthz") }

// terminate stops the replica as a kubelet stops a pod, and waits until it has stopped gracefully.
func (r *replica) terminate(ctx context.Context) {
	GinkgoHelper()
	Expect(r.process.Signal(syscall.SIGTERM)).To(Succeed())
	r.awaitEnd(ctx)
}

// restart terminates all replicas and starts them again. There must be no admission in progress.
func (w *world) restart(ctx context.Context) {
	GinkgoHelper()
	for _, r := range w.replicas {
		Expect(r.process.Signal(syscall.SIGTERM)).To(Succeed())
	}
	for _, r := range w.replicas {
		r.awaitEnd(ctx)
		r.serve(ctx)
	}
}

// awaitEnd waits until the replica has stopped gracefully and the API server has closed its connections.
func (r *replica) awaitEnd(ctx context.Context) {
	GinkgoHelper()
	Eventually(r.process.Alive).WithContext(ctx).ShouldNot(Succeed())
	Expect(r.process.WaitEnd()).To(Succeed())
	Eventually(r.isReady).WithContext(ctx).Should(BeFalse())
	Eventually(r.openConnections).WithContext(ctx).Should(BeZero())
}

// kill kills the replica as the OOM killer does. It returns once new connections go to others and the API server has closed the old
// ones.
func (r *replica) kill(ctx context.Context) {
	GinkgoHelper()
	r.process.Kill()
	Eventually(r.isReady).WithContext(ctx).Should(BeFalse())
	Eventually(r.openConnections).WithContext(ctx).Should(BeZero())
}

// only calls do while all admissions go to one of the replicas. There must be no admission in progress when it is called.
func (w *world) only(ctx context.Context, chosen *replica, do func()) {
	GinkgoHelper()
	w.choose(ctx, chosen)
	defer w.balancer.choose(nil)
	do()
}

// choose sends all further admissions to one of the replicas. There must be no admission in progress when it is called.
func (w *world) choose(ctx context.Context, chosen *replica) {
	GinkgoHelper()
	w.balancer.choose(chosen.backend)
	Eventually(func() int { return w.balancer.openBeside(chosen.backend) }).WithContext(ctx).Should(BeZero())
}

func (r *replica) openConnections() int {
	open, _ := r.world.balancer.connections(r.backend)
	return open
}

// stop stops the replica at the end of its spec. Its log must contain no secret.
func (r *replica) stop() {
	if r.process == nil {
		return
	}
	r.process.Kill()
	log := r.log()
	for _, secret := range r.world.cloud.Secrets() {
		Expect(strings.Contains(log, secret)).To(BeFalse(), "a secret in the log")
	}
}

// serves is the serial number of the serving certificate of a new connection, "" if there is none.
func (r *replica) serves(ctx context.Context) string {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}} // the certificate is only read, and need not be trusted
	connection, err := dialer.DialContext(ctx, "tcp", r.webhook)
	if err != nil {
		return ""
	}
	defer connection.Close()
	secured, ok := connection.(*tls.Conn)
	if !ok {
		return ""
	}
	return secured.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// metric is the sum of a metric over all series with the given labels.
func (r *replica) metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return process.Metric(ctx, http.DefaultClient, "http://"+r.metrics, name, labels)
}

// runs is the number of audits of the replica since its start.
func (r *replica) runs(ctx context.Context) (float64, error) {
	return r.metric(ctx, "warrantgate_audit_runs_total", nil)
}

// LogFile is the file of the log of the replica, over restarts.
func (r *replica) LogFile() string { return filepath.Join(r.dir, "warrantgate.log") }

func (r *replica) log() string { return suite.Log(r) }
