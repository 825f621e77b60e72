//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// soakEnv is the variable that says how long the soak takes, such as 1h. Without it there is none: see "make soak".
const soakEnv = "SOAK"

// sampled is what a replica may not need more and more of: the metric, by its name in the report, and how much more than at the
// end of the first quarter it may be at the end, as a part of that and in all.
var sampled = []struct {
	name, metric string
	unit         float64
	part, more   float64
}{
	{name: "memory/MiB", metric: "process_resident_memory_bytes", unit: 1 << 20, part: 0.2, more: 8},
	{name: "goroutines", metric: "go_goroutines", unit: 1, part: 0.1, more: 10},
	{name: "descriptors", metric: "process_open_fds", unit: 1, part: 0.1, more: 10},
}

// samples are how often a soak looks.
const samples = 40

var _ = soak(os.Getenv(soakEnv))

// soak adds the story of a soak of that duration, none where that is "".
func soak(duration string) bool {
	if duration == "" {
		return false
	}
	return Describe("A soak", func() {
		It("of "+duration+" goes on without more and more memory, goroutines or descriptors", func(ctx SpecContext) {
			length, err := time.ParseDuration(duration)
			Expect(err).NotTo(HaveOccurred())
			w := newWorld(ctx, 2, 0)
			load := w.newLoad(ctx)
			load.tidy = true
			done := make(chan struct{})
			loaded := make(chan struct{})
			go func() {
				defer close(loaded)
				load.run(ctx, done)
			}()
			taken := w.sample(ctx, length)
			close(done)
			Eventually(loaded).WithContext(ctx).WithTimeout(loadTimeout).Should(BeClosed())
			AddReportEntry("admissions", load.made.Load())
			Expect(load.wrong).To(BeEmpty())
			for replica := range w.replicas {
				for i, about := range sampled {
					first, last := taken[samples/4][replica][i], taken[samples-1][replica][i]
					AddReportEntry(fmt.Sprintf("replica %d: %s", replica, about.name), fmt.Sprintf("%.0f, %.0f; %+.2f per hour",
						first, last, slope(taken[samples/4:], replica, i, length/samples)))
					Expect(last).To(BeNumerically("<=", first*(1+about.part)+about.more), about.name)
				}
			}
		})
	})
}

// sample looks at all replicas, in equal intervals, and prints what it sees: by sample, replica and what is looked at.
func (w *world) sample(ctx context.Context, length time.Duration) [][][]float64 {
	GinkgoHelper()
	ticker := time.NewTicker(length / samples)
	defer ticker.Stop()
	began := time.Now()
	taken := make([][][]float64, 0, samples)
	for len(taken) < samples {
		select {
		case <-ctx.Done():
			Fail("the soak was cut off: " + ctx.Err().Error())
		case <-ticker.C:
		}
		var replicas [][]float64
		line := time.Since(began).Round(time.Second).String()
		for _, r := range w.replicas {
			var values []float64
			for _, about := range sampled {
				value, err := r.metric(ctx, about.metric, nil)
				Expect(err).NotTo(HaveOccurred())
				values = append(values, value/about.unit)
				line += fmt.Sprintf("  %s %.1f", about.name, value/about.unit)
			}
			replicas = append(replicas, values)
		}
		fmt.Fprintln(GinkgoWriter, line)
		taken = append(taken, replicas)
	}
	return taken
}

// slope is by how much a value grows per hour, by the least squares.
func slope(taken [][][]float64, replica, value int, interval time.Duration) float64 {
	var x, y, xx, xy float64
	for i := range taken {
		at, is := float64(i)*interval.Hours(), taken[i][replica][value]
		x, y, xx, xy = x+at, y+is, xx+at*at, xy+at*is
	}
	n := float64(len(taken))
	return (n*xy - x*y) / (n*xx - x*x)
}
