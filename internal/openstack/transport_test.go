package openstack_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"testing"
	"time"

	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

// manyCAs returns at most size bytes of different CA certificates in PEM.
func manyCAs(t *testing.T, size int) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i := int64(1); ; i++ {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(i), Subject: pkix.Name{CommonName: fmt.Sprint(i)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
		if err != nil {
			t.Fatal(err)
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if all.Len()+len(block) > size {
			return all.Bytes()
		}
		all.Write(block)
	}
}

// TestMemoryOfCAs checks that a tenant cannot fill the memory with many Secrets that have many CA certificates. One other byte makes other CAs.
func TestMemoryOfCAs(t *testing.T) {
	const secrets, limit = 100, 32 << 20
	for name, size := range map[string]int{"of the maximum size of a Secret": 1 << 20, "of the maximum size": 256 << 10} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, nil)
			secret := api.secret()
			cloud := api.cloud(secret)
			cas := manyCAs(t, size-16)
			before := heap()
			for i := range secrets {
				secret.data["cacert"] = fmt.Appendf(nil, "%s# %d\n", cas, i)
				var unusable *ownership.IdentityError
				if _, err := cloud.Token(t.Context(), identity); err != nil && (!errors.As(err, &unusable) || unusable.Reason != openstack.IdentityMalformed) {
					t.Fatal(err)
				}
			}
			if grown := heap() - before; grown > limit {
				t.Errorf("%d MiB are kept, more than %d", grown>>20, limit>>20)
			}
			runtime.KeepAlive(cloud)
		})
	}
}

// heap returns the size of all reachable objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // far less than the maximum
}
