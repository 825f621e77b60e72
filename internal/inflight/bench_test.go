package inflight_test

import (
	"errors"
	"fmt"
	"testing"

	"warrantgate.dev/internal/inflight"
)

// BenchmarkBegin measures a write that conflicts with as many pending writes as one namespace may have. All tenants wait for one lock meanwhile.
func BenchmarkBegin(b *testing.B) {
	const pending = 1_900
	var registry inflight.Registry
	shared := []inflight.Key{key("Secret", "shared")}
	for i := range pending {
		entry, err := registry.Begin(b.Context(), inflight.Write{Object: object("clusters", fmt.Sprint(i)), ResourceVersion: "1", Uses: shared}, at("1"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(entry.End)
	}
	change := inflight.Write{Object: object("secrets", "shared"), ResourceVersion: "1", Changes: shared}
	for b.Loop() {
		var conflict *inflight.PendingError
		if _, err := registry.Begin(b.Context(), change, at("1")); !errors.As(err, &conflict) {
			b.Fatalf("error %v, want a conflict", err)
		}
	}
}
