package memory

import (
	"context"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsGivenBackWhileIdle(t *testing.T) {
	for name, tc := range map[string]struct {
		allocated int
		want      bool
	}{
		"idle": {want: true},
		"busy": {allocated: 2 * idleBytes, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- GiveBack(ctx) }()
				<-time.After(idleInterval / 2) // between its first look, which finds nothing allocated yet, and its second
				before := collections()
				kept = make([]byte, tc.allocated)
				<-time.After(idleInterval)
				if got := collections() > before; got != tc.want {
					t.Errorf("given back: %t, want %t", got, tc.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// kept is what the load allocates.
var kept []byte

// collections is how many garbage collections were asked for, which giving back begins with.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
