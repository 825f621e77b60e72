package certificates_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"warrantgate.dev/internal/certificates"
)

func TestACertificateIsMadeAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		begin := time.Now()
		w.start(t)
		leaf := w.served(t)
		if got := leaf.NotAfter.Sub(begin).Round(time.Minute); got != life {
			t.Errorf("it holds for %s, want %s", got, life)
		}
		if diff := cmp.Diff([]string{serviceName}, leaf.DNSNames); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		for _, want := range []string{
			"made the next authority", "reason=\"empty cert\"", "made a certificate by the next authority",
			"put the authority into a webhook configuration", "place=kcp kind=ValidatingWebhookConfiguration", "webhooks=2",
			"serving with another certificate",
		} {
			if !strings.Contains(w.logs.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, w.logs)
			}
		}
		written := w.kubernetes.written() + w.kcp.written()
		w.after(t, 10*time.Minute, w.kubernetes, w.kcp)
		if got := w.kubernetes.written() + w.kcp.written(); got != written {
			t.Errorf("%d writes while nothing had to be changed", got-written)
		}
	})
}

// TestALifeWithRenewals goes through several renewals and a change of the authority. API servers whose clock is wrong by ten
// minutes trust what is served all the time, too.
func TestALifeWithRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.start(t)
		first := w.secret(t).Data["ca.crt"]
		changed := time.Time{}
		for end := time.Now().Add(4*life + time.Minute); time.Now().Before(end); {
			w.after(t, 61*time.Second, w.kubernetes, w.kcp)
			leaf := w.served(t)
			for _, skewed := range []time.Time{time.Now().Add(-10 * time.Minute), time.Now().Add(10 * time.Minute)} {
				if skewed.Before(leaf.NotBefore) || skewed.After(leaf.NotAfter) {
					t.Fatalf("a clock at %s does not take a certificate from %s to %s", skewed, leaf.NotBefore, leaf.NotAfter)
				}
			}
			if left := time.Until(leaf.NotAfter); left < life/3 {
				t.Fatalf("%s of the certificate are left and it is still served", left)
			}
			if changed.IsZero() && !bytes.HasPrefix(w.secret(t).Data["ca.crt"], first) {
				changed = time.Now()
			}
		}
		// There is a renewal every 30 minutes, and a change of the authority after 2 hours.
		if got := len(w.changes); got < 6 || got > 8 {
			t.Errorf("%d certificates in %s, want 6 to 8", got, 4*life)
		}
		if changed.IsZero() {
			t.Error("the authority is still the first one")
		}
		serials := map[string]bool{}
		for _, c := range w.changes {
			serials[string(c.RawSubjectPublicKeyInfo)] = true
		}
		if len(serials) != len(w.changes) {
			t.Errorf("%d keys for %d certificates", len(serials), len(w.changes))
		}
		// The first authority has ended meanwhile, and is trusted no more.
		for _, bundle := range append(w.kcp.bundles(t), w.kubernetes.bundles(t)...) {
			if bytes.Contains(bundle, first) {
				t.Error("an authority that has ended is still trusted")
			}
		}
	})
}

func TestWhatIsMissingIsMadeAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(secret *corev1.Secret)
		// wantAuthority is whether the authority becomes another.
		wantAuthority bool
	}{
		"all data":      {func(s *corev1.Secret) { s.Data = nil }, true},
		"the authority": {func(s *corev1.Secret) { delete(s.Data, "ca.crt") }, true},
		"a key of another authority": {func(s *corev1.Secret) {
			_, key, err := cert.GenerateSelfSignedCertKey("a", nil, nil)
			if err != nil {
				panic(err)
			}
			s.Data["ca.key"] = key
		}, true},
		"the certificate":        {func(s *corev1.Secret) { delete(s.Data, corev1.TLSCertKey) }, false},
		"the key":                {func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = []byte("none") }, false},
		"a change half-way":      {func(s *corev1.Secret) { s.Data["next-ca.crt"] = []byte("half") }, false},
		"both, by what is known": {func(s *corev1.Secret) { s.Data = map[string][]byte{"color": []byte("blue")} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(empty())
				w.start(t)
				before := w.secret(t)
				spoiled := before.DeepCopy()
				tc.spoil(spoiled)
				if err := w.kubernetes.Update(t.Context(), spoiled); err != nil {
					t.Fatal(err)
				}
				w.after(t, time.Minute, w.kubernetes, w.kcp) // in which no admission fails
				after := w.secret(t)
				if got := !bytes.Equal(before.Data["ca.key"], after.Data["ca.key"]); got != tc.wantAuthority {
					t.Errorf("another authority: %t, want %t\n%s", got, tc.wantAuthority, w.logs)
				}
				if len(after.Data["next-ca.crt"]) > 0 || len(after.Data["color"]) > 0 {
					t.Errorf("the Secret still holds %d keys", len(after.Data))
				}
			})
		})
	}
}

// A change of the authority goes on from wherever a leader has died.
func TestAChangeOfTheAuthorityOutlivesItsLeader(t *testing.T) {
	for passes := range 3 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(empty())
			w.start(t)
			spoiled := w.secret(t)
			former := spoiled.Data["ca.crt"]
			delete(spoiled.Data, "ca.key")
			if err := w.kubernetes.Update(t.Context(), spoiled); err != nil {
				t.Fatal(err)
			}
			w.after(t, time.Duration(passes)*certificates.Interval, w.kubernetes, w.kcp)
			w.stopLead()
			w.after(t, 5*certificates.Interval, w.kubernetes, w.kcp) // nobody leads
			w.lead(t)
			w.after(t, 5*certificates.Interval, w.kubernetes, w.kcp)
			if got := w.secret(t).Data["ca.crt"]; bytes.HasPrefix(got, former) || !bytes.Contains(got, former) {
				t.Errorf("after %d passes: the former authority is still the present one, or trusted no more", passes)
			}
		})
	}
}

// An authority that is taken out of a webhook configuration is put back, and what others have put there stays.
func TestTheAuthorityIsPutBack(t *testing.T) {
	other, _, err := cert.GenerateSelfSignedCertKey("other", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range map[string][]byte{"nothing is left": nil, "others' authority": other, "no bundle at all": []byte("\n")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(empty())
				w.start(t)
				for _, object := range configurations(bundle) {
					if err := w.kcp.Delete(t.Context(), object); err != nil {
						t.Fatal(err)
					}
					if err := w.kcp.Create(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(certificates.Interval + time.Second)
				synctest.Wait()
				w.trusted(t, w.kubernetes, w.kcp)
				for _, got := range w.kcp.bundles(t) {
					if name == "others' authority" && !bytes.HasPrefix(got, other) {
						t.Error("the authority of somebody else is gone")
					}
				}
			})
		})
	}
}

func TestWhatIsNotRegisteredHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		for _, object := range configurations(nil) {
			if err := w.kcp.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		w.runFor(t, 3*time.Second)
		w.trusted(t, w.kubernetes)
		for _, object := range configurations(nil) {
			if err := w.kcp.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(certificates.Interval)
		synctest.Wait()
		w.trusted(t, w.kubernetes, w.kcp)
		if strings.Contains(w.logs.String(), "level=ERROR") {
			t.Errorf("there is an error:\n%s", w.logs)
		}
	})
}

// A kcp that is away does not keep the others from a first certificate, but keeps an authority that still holds from being
// changed.
func TestAnAPIServerThatIsAway(t *testing.T) {
	away := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.kcp.setAway(away)
		w.runFor(t, 3*time.Second)
		w.trusted(t, w.kubernetes)
		if want := `read MutatingWebhookConfiguration \"warrantgate\" of kcp: connection refused`; !strings.Contains(w.logs.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, w.logs)
		}
		w.kcp.setAway(nil)
		w.after(t, time.Second, w.kubernetes)
		<-time.After(certificates.Interval)
		synctest.Wait()
		w.trusted(t, w.kubernetes, w.kcp)

		w.kcp.setAway(away)
		before := w.secret(t).Data["ca.key"]
		w.after(t, 3*life, w.kubernetes) // the last third of the authority has begun, and certificates are renewed nevertheless
		if !bytes.Equal(before, w.secret(t).Data["ca.key"]) {
			t.Error("the authority was changed while an API server could not hear of it")
		}
		if want := "the authority is not changed before all API servers trust the next one"; !strings.Contains(w.logs.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, w.logs)
		}
		if got := strings.Count(w.logs.String(), "the authority is not changed before"); got != 1 {
			t.Errorf("it says so %d times", got)
		}
		w.kcp.setAway(nil)
		w.after(t, time.Minute, w.kubernetes, w.kcp)
		if bytes.Equal(before, w.secret(t).Data["ca.key"]) {
			t.Error("the authority is still the old one")
		}
	})
}

// Two replicas that both take themselves for the leader never both write a certificate: the later one finds the Secret
// changed.
func TestTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.serve(t)
		w.lead(t)
		defer w.stopLead()
		w.lead(t)
		defer w.stopLead()
		defer w.stop()
		<-time.After(3 * time.Second)
		synctest.Wait()
		w.trusted(t, w.kubernetes, w.kcp)
		first := w.served(t)
		w.after(t, time.Minute, w.kubernetes, w.kcp)
		if !first.Equal(w.served(t)) || len(w.changes) != 1 {
			t.Errorf("%d certificates, want 1", len(w.changes))
		}
	})
}

func TestNothingOfAnOperatorsIsWritten(t *testing.T) {
	crt, privateKey, err := cert.GenerateSelfSignedCertKey(serviceName, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, secretType := range map[string]corev1.SecretType{"a Secret for TLS": corev1.SecretTypeTLS, "an opaque one": corev1.SecretTypeOpaque} {
		t.Run(name, func(t *testing.T) {
			secret := empty()
			secret.Type, secret.Data = secretType, map[string][]byte{corev1.TLSCertKey: crt, corev1.TLSPrivateKeyKey: privateKey}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(secret)
				before := w.secret(t)
				w.runFor(t, time.Minute)
				if diff := cmp.Diff(before, w.secret(t)); diff != "" {
					t.Errorf("the Secret is another (-want +got):\n%s", diff)
				}
				if w.kubernetes.written()+w.kcp.written() > 0 {
					t.Error("something was written")
				}
				if _, err := w.source.GetCertificate(nil); err == nil {
					t.Error("it is served")
				}
				if want := `so it is somebody else's and left alone`; !strings.Contains(w.logs.String(), want) {
					t.Errorf("the log does not say %s:\n%s", want, w.logs)
				}
			})
		})
	}
}

func TestThereIsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		if err := w.kubernetes.Delete(t.Context(), empty()); err != nil {
			t.Fatal(err)
		}
		w.runFor(t, time.Minute)
		if err := w.source.Ready(nil); err == nil || err.Error() != "there is no certificate yet" {
			t.Errorf("Ready() = %v", err)
		}
		const want = `read the Secret of the certificate: secrets \"warrantgate-certificate\" not found; make one of type warrantgate.dev/certificate without data`
		if got := strings.Count(w.logs.String(), want); got != 1 {
			t.Errorf("it is said %d times, want once:\n%s", got, w.logs)
		}
		if err := w.kubernetes.Create(t.Context(), empty()); err != nil {
			t.Fatal(err)
		}
		<-time.After(certificates.Interval + 2*time.Second)
		synctest.Wait()
		w.trusted(t, w.kubernetes, w.kcp)
		if err := w.source.Ready(nil); err != nil {
			t.Errorf("Ready() = %v", err)
		}
	})
}

// In an upgrade that adds a name new replicas have to serve, with the certificate that there is, before one of them leads.
func TestAFurtherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.start(t)
		before := w.secret(t)
		w.stopLead()
		synctest.Wait()
		w.keeper.Names = []string{serviceName, "warrantgate.example.com"}
		w.lead(t)
		synctest.Wait()
		if bytes.Equal(before.Data[corev1.TLSCertKey], w.secret(t).Data[corev1.TLSCertKey]) {
			t.Fatalf("there is no other certificate:\n%s", w.logs)
		}
		w.after(t, 15*time.Second, w.kubernetes, w.kcp)
		if diff := cmp.Diff(w.keeper.Names, w.served(t).DNSNames); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		if !bytes.Equal(before.Data["ca.crt"], w.secret(t).Data["ca.crt"]) {
			t.Error("the authority is another")
		}
	})
}

// A Secret that is emptied again and again does not make the bundles grow without end.
func TestFormerAuthoritiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.start(t)
		for range 6 {
			spoiled := w.secret(t)
			spoiled.Data = nil
			if err := w.kubernetes.Update(t.Context(), spoiled); err != nil {
				t.Fatal(err)
			}
			w.after(t, 3*certificates.Interval, w.kubernetes, w.kcp)
		}
		for _, bundle := range w.kcp.bundles(t) {
			certs, err := cert.ParseCertsPEM(bundle)
			if err != nil || len(certs) != 5 {
				t.Errorf("%d authorities are trusted, want 5: %v", len(certs), err)
			}
		}
	})
}

func TestTheCertificateIsForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.start(t)
		if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, w.served(t).ExtKeyUsage); diff != "" || w.served(t).IsCA {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	})
}
