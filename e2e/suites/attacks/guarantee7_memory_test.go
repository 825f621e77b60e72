//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/internal/identity"
)

// mostMemory is how much the resident memory of warrantgate may grow. A pod of the chart has 256 MiB.
const mostMemory = 64 << 20

// Guarantee 7: the memory and the log of warrantgate do not depend on the size of a tenant's objects and names.
var _ = Describe("the memory and the log of warrantgate, against tenants with large objects and names", Serial, func() {
	// begin restarts warrantgate, because the peak of its memory has to be that of the spec, with the timeouts of an installation.
	begin := func(ctx SpecContext) *kubeWorld {
		GinkgoHelper()
		w := kube(ctx)
		_, err := w.gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.gate.Restart(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			w.install(ctx)
			machines := newObject(machineKind, "", "", nil)
			namespaces := &corev1.NamespaceList{}
			Expect(w.admin.List(ctx, namespaces)).To(Succeed())
			for i := range namespaces.Items {
				Expect(w.admin.DeleteAllOf(ctx, machines, client.InNamespace(namespaces.Items[i].Name))).To(Succeed())
			}
		})
		return w
	}

	It("does not grow with the owner references of machines", Label(volume.Label), func(ctx SpecContext) {
		const machines, size = 120, 1 << 20
		w := begin(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		before := peak(w.gate.PID())
		many(machines, func(i int) error {
			machine := newMachine(attacker.namespace, fmt.Sprintf("large-%d", i), "pool", nil)
			machine.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: clusterAPI.String(), Kind: "Machine", Name: "worker", UID: types.UID(strings.Repeat("x", size)),
			}})
			return attacker.client.Create(ctx, machine)
		})
		Consistently(func() int64 { return peak(w.gate.PID()) - before }).WithTimeout(4 * time.Second).Should(BeNumerically("<", mostMemory))
	}, SpecTimeout(startTimeout))

	It("does not grow with lists of large machines, which do not delay those of another namespace", Label(volume.Label), func(ctx SpecContext) {
		const machines, size, writes = 100, 1 << 20, 12
		const small, flooding, attempts = 100, 20, 5
		w := begin(ctx)
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		many(machines, func(i int) error {
			machine := newMachine(attacker.namespace, fmt.Sprintf("large-%d", i), "pool", nil)
			machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "any", UID: types.UID(strings.Repeat("x", size))}})
			return attacker.client.Create(ctx, machine)
		})
		before := peak(w.gate.PID())
		write := func(ctx context.Context, who tenant, i int) error { // it is denied if not all machines of the namespace can be read in time
			machine := newObject(clusterAPI.WithKind("Machine"), who.namespace, fmt.Sprintf("worker-%d", i), nil)
			machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool"})
			return who.client.Create(ctx, machine, client.DryRunAll)
		}
		many(writes, func(i int) error {
			_ = write(ctx, attacker, i)
			return nil
		})
		AddReportEntry("MiB", fmt.Sprintf("%d before, %d after", before>>20, peak(w.gate.PID())>>20))
		Expect(peak(w.gate.PID()) - before).To(BeNumerically("<", 3*mostMemory))

		By("another namespace with many small machines, during a flood")
		many(small, func(i int) error {
			return victim.client.Create(ctx, newMachine(victim.namespace, fmt.Sprintf("small-%d", i), "pool", nil))
		})
		attacking, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		var answered atomic.Int32
		DeferCleanup(flood.Wait)
		DeferCleanup(stop)
		for i := range flooding {
			flood.Go(func() {
				for attacking.Err() == nil {
					_ = write(attacking, attacker, i) // a fast machine reads the machines in time, so it may succeed
					answered.Add(1)
				}
			})
		}
		Eventually(answered.Load).WithContext(ctx).Should(BeNumerically(">=", flooding))
		var took []time.Duration
		for i := range attempts {
			began := time.Now()
			Expect(write(ctx, victim, i)).To(Succeed())
			took = append(took, time.Since(began).Round(time.Millisecond))
		}
		AddReportEntry("writes of another namespace", took)
	}, SpecTimeout(startTimeout))

	// forge tries to forge an owner as users with long names, whom the attacker impersonates.
	forge := func(ctx SpecContext, w *kcpWorld, attempts int) {
		GinkgoHelper()
		const group, size = "long-names", 700 << 10
		attacker := w.owner(ctx, "attacker")
		suite.ReadyWorkspace(ctx, attacker.config, "child")
		attacker.allow(ctx, group)
		as := func(name string) error {
			return forgeOwner(ctx, attacker.impersonating(identity.Owner{Username: name, Groups: []string{group, "system:authenticated"}}))
		}
		Eventually(ctx, func() error { return as("short") }).Should(MatchError(ContainSubstring("only the system may change it")))
		logged := logSize(w.gate.LogFile())
		many(attempts, func(i int) error {
			err := as(fmt.Sprintf("%d-%s", i, strings.Repeat("x", size)))
			if !apierrors.IsForbidden(err) {
				return fmt.Errorf("attempt %d: %.300s", i, fmt.Sprint(err))
			}
			return nil
		})
		Expect(logSize(w.gate.LogFile())-logged).To(BeNumerically("<", attempts*16<<10), "bytes of log")
	}

	It("does not log the whole names of users whom a tenant impersonates", func(ctx SpecContext) {
		forge(ctx, kcp(ctx), 5)
	}, SpecTimeout(startTimeout))

	It("does not grow with the reason for which a tenant's webhook denies Events", func(ctx SpecContext) {
		const size = 12 << 20
		w := kcp(ctx)
		attacker := w.owner(ctx, "attacker")
		suite.ReadyWorkspace(ctx, attacker.config, "child")
		before, logged := peak(w.gate.PID()), logSize(w.gate.LogFile())
		var denied atomic.Int32
		attacker.answerEvents(ctx, func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			var event corev1.Event
			Expect(json.Unmarshal(request.Object.Raw, &event)).To(Succeed())
			if event.Source.Component != "warrantgate" {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no"}}
			}
			denied.Add(1)
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: strings.Repeat("x", size)}}
		})
		Expect(forgeOwner(ctx, attacker.config)).To(MatchError(ContainSubstring("only the system may change it")))
		Eventually(ctx, denied.Load).Should(BeNumerically(">", 0))
		Eventually(ctx, func() int64 { return logSize(w.gate.LogFile()) }).Should(BeNumerically(">", logged), "warrantgate logs the denial")
		AddReportEntry("MiB", fmt.Sprintf("%d before, %d after", before>>20, peak(w.gate.PID())>>20))
		Expect(peak(w.gate.PID()) - before).To(BeNumerically("<", mostMemory))
		Expect(logSize(w.gate.LogFile())-logged).To(BeNumerically("<", 64<<10), "bytes of log")
	}, SpecTimeout(startTimeout))

	It("does not grow with the names of users whom a tenant impersonates", Label(volume.Label), func(ctx SpecContext) {
		w := kcp(ctx)
		before := peak(w.gate.PID())
		forge(ctx, w, 100)
		Expect(peak(w.gate.PID()) - before).To(BeNumerically("<", mostMemory))
	}, SpecTimeout(startTimeout))
})

// many calls a function n times, some calls at a time.
func many(count int, do func(i int) error) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(4)
	for i := range count {
		group.Go(func() error { return do(i) })
	}
	Expect(group.Wait()).To(Succeed())
}

// peak is the most memory that a process has had, in bytes.
func peak(pid int) int64 {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	Expect(err).NotTo(HaveOccurred())
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kibibytes int64
	_, err = fmt.Sscan(after, &kibibytes)
	Expect(err).NotTo(HaveOccurred())
	return kibibytes << 10
}

func logSize(path string) int64 {
	GinkgoHelper()
	info, err := os.Stat(path)
	Expect(err).NotTo(HaveOccurred())
	return info.Size()
}
