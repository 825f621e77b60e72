//go:build e2e

package replicas_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func disks() {
	It("with the certificate may be full: the earlier certificate is served until the next one is complete", func(ctx SpecContext) {
		r := chaos.newReplica(ctx)
		tlsDir := filepath.Join(r.dir, tlsFolder)
		small := mountSmall(tlsDir)
		certificate, key := filepath.Join(tlsDir, "tls.crt"), filepath.Join(tlsDir, "tls.key")
		if small {
			r.mountCertificate(chaos.serving)
		}
		r.serve(ctx)
		for _, other := range chaos.replicas {
			other.terminate(ctx)
		}
		s := chaos.begin(ctx)
		Expect(s.checkVerdicts(ctx)).To(Succeed())
		next := newPair(chaos.ca)

		By("there is no space for the next certificate")
		Expect(os.Truncate(certificate, 0)).To(Succeed()) // a writer begins by truncating the file
		if small {
			fill(filepath.Join(tlsDir, "filler"))
			Expect(os.WriteFile(certificate, next.Certificate, 0o600)).To(MatchError(syscall.ENOSPC))
		}
		Expect(os.ReadFile(certificate)).To(BeEmpty())
		Eventually(r.log).WithContext(ctx).Should(ContainSubstring("failed to find any PEM data in certificate input"))
		Expect(r.serves(ctx)).To(Equal(serial(chaos.serving)))
		Expect(s.checkVerdicts(ctx)).To(Succeed())

		By("there is space for one half of the next certificate")
		Expect(errors.Join(os.RemoveAll(filepath.Join(tlsDir, "filler")), os.WriteFile(certificate, next.Certificate, 0o600))).To(Succeed())
		Eventually(r.log).WithContext(ctx).Should(ContainSubstring("private key does not match public key"))
		Expect(r.serves(ctx)).To(Equal(serial(chaos.serving)))
		Expect(s.checkVerdicts(ctx)).To(Succeed())
		Expect(r.isReady()).To(BeTrue())

		By("there is space for the whole next certificate")
		Expect(os.WriteFile(key, next.Key, 0o600)).To(Succeed())
		Eventually(r.serves).WithContext(ctx).Should(Equal(serial(next)))
		Expect(s.checkVerdicts(ctx)).To(Succeed())

		for _, other := range chaos.replicas {
			other.serve(ctx)
		}
		r.terminate(ctx)
	}, SpecTimeout(timeout))
}

// fill writes a file until the file system is full.
func fill(path string) {
	GinkgoHelper()
	file, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 1024))
	}
	Expect(err).To(MatchError(syscall.ENOSPC))
}
