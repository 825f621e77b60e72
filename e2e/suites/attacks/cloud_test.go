//go:build e2e

package attacks_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/warrantgatetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// cloudWorld is the common part of both worlds: a CloudSigma, and servers that stop in the reverse order of their start.
type cloudWorld struct {
	cloud   *cloudsigmatest.Cloud
	account cloudsigmatest.Client
	stops   []func() error
}

// startCloud starts the cloud. Its service account may act as the users of the function user.
func (w *cloudWorld) startCloud(ctx SpecContext) {
	GinkgoHelper()
	var err error
	w.cloud, err = cloudsigmatest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.started(w.cloud.Stop)
	w.account = w.cloud.AddClient(serviceAccount)
}

// started remembers how to stop a server.
func (w *cloudWorld) started(stop func() error) { w.stops = append(w.stops, stop) }

// stop stops the servers that have started. The cloud must not have received unknown requests.
func (w *cloudWorld) stop() {
	GinkgoHelper()
	var errs []error
	for _, stop := range slices.Backward(w.stops) {
		errs = append(errs, stop())
	}
	if w.cloud != nil {
		Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud received unknown requests")
	}
	Expect(errors.Join(errs...)).To(Succeed())
}

// stopUnless stops the servers after a start that failed.
func (w *cloudWorld) stopUnless(complete *bool) {
	if !*complete {
		w.stop()
	}
}

// settings returns the settings of a warrantgate that sends a few requests at once to the cloud, so that a few callers exhaust them. dir is
// for its files.
func (w *cloudWorld) settings(dir, configuration string) warrantgatetest.Settings {
	GinkgoHelper()
	caFile, err := w.cloud.CAFile(dir)
	Expect(err).NotTo(HaveOccurred())
	secretFile := filepath.Join(dir, "client-secret")
	Expect(os.WriteFile(secretFile, []byte(w.account.Secret), 0o600)).To(Succeed())
	return warrantgatetest.Settings{
		Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q, concurrency: 4}\n%s",
			w.cloud.APITemplate(), w.cloud.ServiceProviderTemplate(), caFile, configuration),
		Args: []string{
			"--impersonation-enabled", "--oauth-url=" + w.cloud.OAuthURL(), "--client-id=" + w.account.ID, "--client-secret-file=" + secretFile,
		},
	}
}

// user adds a user of the cloud that warrantgate may act as there. No user of the API server may impersonate it before permit.
func (w *cloudWorld) user(email string) cloudsigmatest.User {
	GinkgoHelper()
	user := w.cloud.AddUser(email)
	Expect(w.cloud.AllowImpersonation(serviceAccount, email)).To(Succeed())
	return user
}

// server adds a server of a user.
func (w *cloudWorld) server(owner cloudsigmatest.User, name string) cloudsigmatest.Server {
	return w.cloud.AddServer(region, owner, name)
}
