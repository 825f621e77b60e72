package certificates

import (
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// mostFormer is how many former authorities are trusted at most, lest a Secret that is emptied again and again makes a
// bundle grow without end.
const mostFormer = 4

// merge returns the bundle with those of the authorities in it that have not ended. Authorities of others stay, as does what
// warrantgate has made before and has not ended: some replica may still serve by it. The same bundle is returned where
// nothing has to change.
func merge(bundle []byte, authorities []*x509.Certificate, now time.Time) ([]byte, error) {
	present := parse(bundle)
	merged := slices.DeleteFunc(slices.Clone(present), func(c *x509.Certificate) bool { return made(c) && now.After(c.NotAfter) })
	for _, authority := range authorities {
		if !now.After(authority.NotAfter) && !slices.ContainsFunc(merged, authority.Equal) {
			merged = append(merged, authority)
		}
	}
	var former []*x509.Certificate
	for _, c := range merged {
		if made(c) && !slices.ContainsFunc(authorities, c.Equal) {
			former = append(former, c)
		}
	}
	slices.SortFunc(former, func(a, b *x509.Certificate) int { return b.NotAfter.Compare(a.NotAfter) })
	if len(former) > mostFormer {
		merged = slices.DeleteFunc(merged, func(c *x509.Certificate) bool { return slices.ContainsFunc(former[mostFormer:], c.Equal) })
	}
	if slices.EqualFunc(present, merged, (*x509.Certificate).Equal) {
		return bundle, nil
	}
	return cert.EncodeCertificates(merged...)
}

// made tells warrantgate's own authorities from others.
func made(authority *x509.Certificate) bool {
	return slices.Contains(authority.Subject.Organization, organization)
}
