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

// soakEnv is the environment variable with the duration of the soak, such as 1h. Without it, there is no soak: see "make soak".
const soakEnv = "SOAK"

// sampled is a metric that must not grow without bound: its name in the report, and its maximum growth from the end of the first
// quarter to the end, as a ratio and absolute.
var sampled = []struct {
	name, metric string
	unit         float64
	part, more   float64
}{
	{name: "memory/MiB", metric: "process_resident_memory_bytes", unit: 1 << 20, part: 0.2, more: 8},
	{name: "goroutines", metric: "go_goroutines", unit: 1, part: 0.1, more: 10},
	{name: "descriptors", metric: "process_open_fds", unit: 1, part: 0.1, more: 10},
}

// samples is the number of samples of a soak.
const samples = 40

var _ = soak(os.Getenv(soakEnv))

// soak adds the spec of a soak with a duration, none if it is "".
func soak(duration string) bool {
	if duration == "" {
		return false
	}
	return Describe("A soak", func() {
		It("of "+duration+" shows no growth of memory, goroutines or file descriptors", func(ctx SpecContext) {
			length, err := time.ParseDuration(duration)
			Expect(err).NotTo(HaveOccurred())
			w := newWorld(ctx, 2, 0)
			load := w.newLoad(ctx)
			load.perSecond, load.tidy = perSecond(), true
			done := make(chan struct{})
			loaded := make(chan struct{})
			go func() {
				defer close(loaded)
				load.run(ctx, done)
			}()
			measured := w.sample(ctx, length)
			close(done)
			Eventually(loaded).WithContext(ctx).WithTimeout(loadTimeout).Should(BeClosed())
			AddReportEntry("admissions", load.made.Load())
			Expect(load.wrong).To(BeEmpty())
			for replica := range w.replicas {
				for i, about := range sampled {
					first, last := measured[samples/4][replica][i], measured[samples-1][replica][i]
					AddReportEntry(fmt.Sprintf("replica %d: %s", replica, about.name), fmt.Sprintf("%.0f, %.0f; %+.2f per hour",
						first, last, slope(measured[samples/4:], replica, i, length/samples)))
					Expect(last).To(BeNumerically("<=", first*(1+about.part)+about.more), about.name)
				}
			}
		})
	})
}

// sample samples all replicas in equal intervals, and prints the values by sample, replica and metric.
func (w *world) sample(ctx context.Context, length time.Duration) [][][]float64 {
	GinkgoHelper()
	ticker := time.NewTicker(length / samples)
	defer ticker.Stop()
	began := time.Now()
	measured := make([][][]float64, 0, samples)
	for len(measured) < samples {
		select {
		case <-ctx.Done():
			Fail("the soak was interrupted: " + ctx.Err().Error())
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
		measured = append(measured, replicas)
	}
	return measured
}

// slope is the growth of a value per hour, by least squares.
func slope(measured [][][]float64, replica, value int, interval time.Duration) float64 {
	var x, y, xx, xy float64
	for i := range measured {
		at, is := float64(i)*interval.Hours(), measured[i][replica][value]
		x, y, xx, xy = x+at, y+is, xx+at*at, xy+at*is
	}
	n := float64(len(measured))
	return (n*xy - x*y) / (n*xx - x*x)
}
