package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/certificates"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

const (
	// defaultCertificateLife is how long a certificate holds that serve makes. The alert in the README fires 14 days before
	// the end, which is long after the renewal.
	defaultCertificateLife = 90 * 24 * time.Hour
	// leastCertificateLife is several times the interval at which certificates are looked at.
	leastCertificateLife = time.Minute
)

// expiry is when the serving certificate ends.
var expiry atomic.Pointer[time.Time]

var certificateExpiry = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "warrantgate_certificate_expiry_seconds",
	Help: "Time until the serving certificate ends. It is negative once it has ended.",
}, func() float64 {
	if end := expiry.Load(); end != nil {
		return time.Until(*end).Seconds()
	}
	return 0
})

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(certificateExpiry)
}

// watchExpiry keeps the metric of the certificate's end, and tells of one that does not hold: API servers refuse it, and only
// they would say so. It is called with each certificate that is to be served.
func watchExpiry(certificate tls.Certificate) {
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return // what is served has been parsed before
	}
	expiry.Store(&leaf.NotAfter)
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		logf.Log.WithName("certificate").Info("the serving certificate does not hold now, and API servers refuse it: renew it, or look at the clock",
			"notBefore", leaf.NotBefore, "notAfter", leaf.NotAfter, "now", now)
	}
}

// certificateFlags say where the serving certificate comes from: from files that others write, or from a Secret that serve
// keeps by itself.
type certificateFlags struct {
	certFile, keyFile string
	secret            string
	secretKubeconfig  string
	dnsNames          []string
	life              time.Duration
	registration      string
}

func (f *certificateFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.certFile, "tls-cert-file", "", "certificate of the webhook server, in PEM, if others make it")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "private key of that certificate, in PEM")
	flags.StringVar(&f.secret, "certificate-secret", "",
		"NAMESPACE/NAME of a Secret of type "+string(certificates.SecretType)+" in which serve keeps a certificate of its own, instead of --tls-cert-file")
	flags.StringVar(&f.secretKubeconfig, "certificate-kubeconfig", "", "kubeconfig for the API server with that Secret (default --kubeconfig)")
	flags.StringSliceVar(&f.dnsNames, "certificate-dns-names", nil, "names at which API servers reach serve, for the certificate of --certificate-secret")
	flags.DurationVar(&f.life, "certificate-duration", defaultCertificateLife, "how long that certificate holds; the last third is for its renewal")
	flags.StringVar(&f.registration, "certificate-webhooks", webhooks.ConfigurationName,
		"name of the webhook configurations, in the API server of --kubeconfig, that get the authority of that certificate")
	cmd.MarkFlagsOneRequired("tls-cert-file", "certificate-secret")
	cmd.MarkFlagsMutuallyExclusive("tls-cert-file", "certificate-secret")
	cmd.MarkFlagsRequiredTogether("tls-cert-file", "tls-private-key-file")
	cmd.MarkFlagsRequiredTogether("certificate-secret", "certificate-dns-names")
}

// servingCertificate is what the webhooks are served with, and what has to run for that.
type servingCertificate struct {
	get       func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ready     healthz.Checker
	runnables []manager.Runnable
}

// before is a check that is made once there is a certificate. Without one it would only fill the log with failed handshakes.
func (c servingCertificate) before(check healthz.Checker) healthz.Checker {
	return func(request *http.Request) error {
		if err := c.ready(request); err != nil {
			return err
		}
		return check(request)
	}
}

// load returns the certificate of the files or the Secret. The kubeconfigs are those of serve; "" where there is none.
func (f certificateFlags) load(config v1beta1.GateConfiguration, kubeconfig, kcpKubeconfig string) (servingCertificate, error) {
	if f.secret != "" {
		return f.fromSecret(config, kubeconfig, kcpKubeconfig)
	}
	files, err := certwatcher.New(f.certFile, f.keyFile)
	if err != nil {
		return servingCertificate{}, fmt.Errorf("read the serving certificate (--tls-cert-file, --tls-private-key-file): %w", err)
	}
	files.RegisterCallback(watchExpiry) // which calls it at once with what has been read
	return servingCertificate{get: files.GetCertificate, ready: healthz.Ping, runnables: []manager.Runnable{files}}, nil
}

func (f certificateFlags) fromSecret(config v1beta1.GateConfiguration, kubeconfig, kcpKubeconfig string) (servingCertificate, error) {
	key, err := f.validate()
	if err != nil {
		return servingCertificate{}, err
	}
	path := cmp.Or(f.secretKubeconfig, kubeconfig)
	if path == "" {
		return servingCertificate{}, errors.New("--certificate-secret needs --certificate-kubeconfig or --kubeconfig, for the API server with the Secret")
	}
	reached, err := cli.LoadKubeconfig(path, "")
	if err != nil {
		return servingCertificate{}, fmt.Errorf("--certificate-kubeconfig: %w", err)
	}
	secrets, err := certificates.NewClient(reached)
	if err != nil {
		return servingCertificate{}, err
	}
	// The Lease has the Secret's name, so that replicas of two releases in one namespace do not wait for each other.
	election, err := leader.NewElection(reached, key.Namespace, key.Name)
	if err != nil {
		return servingCertificate{}, err
	}
	registrations, err := f.registrations(config, kubeconfig, kcpKubeconfig)
	if err != nil {
		return servingCertificate{}, err
	}
	source := &certificates.Source{Secrets: secrets, Key: key, Changed: watchExpiry}
	keeper := &certificates.Keeper{
		Secrets: secrets, Key: key, Names: f.dnsNames, Life: f.life, Registrations: registrations, Election: election,
	}
	return servingCertificate{get: source.GetCertificate, ready: source.Ready, runnables: []manager.Runnable{source, keeper}}, nil
}

func (f certificateFlags) validate() (key client.ObjectKey, err error) {
	namespace, name, found := strings.Cut(f.secret, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return key, fmt.Errorf("--certificate-secret: %q is not NAMESPACE/NAME", f.secret)
	}
	if f.life < leastCertificateLife {
		return key, fmt.Errorf("--certificate-duration: %s is less than %s", f.life, leastCertificateLife)
	}
	for _, name := range f.dnsNames {
		if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 || net.ParseIP(name) != nil {
			return key, fmt.Errorf("--certificate-dns-names: %q is not a name that a certificate can be for", name)
		}
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// registrations are the webhook configurations by which serve is asked: of Kubernetes, and in root of kcp.
func (f certificateFlags) registrations(config v1beta1.GateConfiguration, kubeconfig, kcpKubeconfig string) ([]certificates.Registration, error) {
	var found []certificates.Registration
	if kubeconfig != "" {
		kubernetes, err := cli.LoadKubeconfig(kubeconfig, "")
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		c, err := certificates.NewClient(kubernetes)
		if err != nil {
			return nil, err
		}
		registered := gates.KubernetesRegistration(webhooks.Server{}, config)
		for _, object := range registered {
			object.SetName(f.registration)
		}
		const remedy = "give this user get and patch of the webhook configurations of that name"
		found = append(found, certificates.Registrations("kubernetes", c, remedy, registered)...)
	}
	if kcpKubeconfig != "" {
		reached, err := cli.LoadKubeconfig(kcpKubeconfig, "")
		if err != nil {
			return nil, fmt.Errorf("--kcp-kubeconfig: %w", err)
		}
		root, err := kcp.ConfigFor(reached, kcp.Root)
		if err != nil {
			return nil, err
		}
		c, err := certificates.NewClient(root)
		if err != nil {
			return nil, err
		}
		const remedy = `run "warrantgate install kcp --self-managed-certificate"`
		found = append(found, certificates.Registrations("kcp", c, remedy, workspace.Registration(webhooks.Server{}, config.Workspace))...)
	}
	return found, nil
}
