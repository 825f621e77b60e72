package main

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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

// watchExpiry keeps the metric of the certificate's end, also when the certificate is another.
func watchExpiry(certificates *certwatcher.CertWatcher) {
	// It is called at once with the certificate that has been read.
	certificates.RegisterCallback(func(certificate tls.Certificate) {
		if leaf, err := x509.ParseCertificate(certificate.Certificate[0]); err == nil { // what is served has been parsed before
			expiry.Store(&leaf.NotAfter)
		}
	})
}
