package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// expiry is the time at which the serving certificate expires.
var expiry atomic.Pointer[time.Time]

var _ = promauto.With(metrics.Registry).NewGaugeFunc(prometheus.GaugeOpts{
	Name: "warrantgate_certificate_expiry_seconds",
	Help: "Seconds until the serving certificate expires, negative after that.",
}, func() float64 {
	if end := expiry.Load(); end != nil {
		return time.Until(*end).Seconds()
	}
	return 0
})

// watchExpiry updates the metric of the certificate's expiry, and logs a certificate that is not valid now: API servers reject it, and
// otherwise only their logs would show that. It is called for each certificate before it is served.
func watchExpiry(certificate tls.Certificate) {
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return // the certificate has been parsed before
	}
	expiry.Store(&leaf.NotAfter)
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		logf.Log.WithName("certificate").Info("the serving certificate is not valid now, so API servers reject it: renew it, or check the clock",
			"notBefore", leaf.NotBefore, "notAfter", leaf.NotAfter, "now", now)
	}
}

// certificateFlags name the files of the serving certificate.
type certificateFlags struct {
	certFile, keyFile string
}

func (f *certificateFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.certFile, "tls-cert-file", "", "certificate of the webhook server, in PEM; reloaded when it changes (required)")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "private key of that certificate, in PEM (required)")
	for _, name := range []string{"tls-cert-file", "tls-private-key-file"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag that is not defined above
		}
	}
}

// load reads the files, and returns a watcher that reads them again when they change.
func (f certificateFlags) load() (*certwatcher.CertWatcher, error) {
	files, err := certwatcher.New(f.certFile, f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate (--tls-cert-file, --tls-private-key-file): %w", err)
	}
	files.RegisterCallback(watchExpiry) // which calls it at once with the certificate that was read
	return files, nil
}
