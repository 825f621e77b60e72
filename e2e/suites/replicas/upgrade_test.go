//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/volume"
)

var _ = Describe("Three replicas of the earlier release", Ordered, func() {
	var w *world
	var before, after edition
	BeforeAll(func(ctx SpecContext) {
		w = startWorld(ctx)
		// Values that both charts have.
		unstructured.RemoveNestedField(w.values, "config", "audit")
		before, after = w.edition(ctx, asset.WarrantgateBefore), w.edition(ctx, asset.Warrantgate)
		Expect(before.version(ctx)).NotTo(Equal(after.version(ctx)))
		w.install(ctx, before)
		w.serve(ctx, 3)
	}, NodeTimeout(startTimeout))

	It("are upgraded to this release and rolled back, and give the expected verdicts for every admission", Label(volume.Label), func(ctx SpecContext) {
		load := w.newLoad(ctx)
		done := make(chan struct{})
		var leaving []*replica
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for _, next := range []edition{after, before} {
				w.install(ctx, next)
				for i, old := range w.replicas {
					load.goTo(ctx, old)
					leaving = append(leaving, w.replace(ctx, i))
					load.awaitMore(ctx)
				}
			}
			for _, r := range w.replicas {
				load.goTo(ctx, r)
			}
			for _, r := range leaving {
				r.awaitEnd(ctx)
			}
		}()
		began := time.Now()
		load.run(ctx, done)
		AddReportEntry("load", fmt.Sprintf("%d admissions in %s, from %s to %s and back", load.made.Load(), time.Since(began),
			strings.TrimSpace(before.version(ctx)), strings.TrimSpace(after.version(ctx))))
		Expect(load.wrong).To(BeEmpty())
		// An untrusted certificate, an unknown path: this counts every failure of the API server to get a response.
		Expect(w.uncalled(ctx)).To(BeZero())
	}, SpecTimeout(loadTimeout))
})

// goTo sends all admissions to one replica for a while. After that, new connections also go to others, and those of this one stay,
// so that all reviews go to it when it is terminated.
func (l *load) goTo(ctx context.Context, r *replica) {
	GinkgoHelper()
	l.between(func() { l.world.choose(ctx, r) })
	l.awaitMore(ctx)
	l.world.balancer.choose(nil)
	_, accepted := l.world.balancer.connections(r.backend)
	Expect(accepted).To(BeNumerically(">", 0), "it was called")
}

// uncalled is the number of writes that the API server denied because it could not call a webhook or got no response.
func (w *world) uncalled(ctx context.Context) (float64, error) {
	client, err := rest.HTTPClientFor(w.api.Config())
	if err != nil {
		return 0, err
	}
	return process.Metric(ctx, client, strings.TrimSuffix(w.api.Config().Host, "/"), "apiserver_admission_webhook_rejection_count",
		map[string]string{"error_type": "calling_webhook_error"})
}
