package main

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestLoadCountsDroppedAdmissions(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer := `{"response":{"allowed":true}}`
		if requests.Add(1) == 2 {
			answer = `{"response":{"allowed":false}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	r, err := newRival("test", server.URL, roots, []contestant{
		{path: "/one", reviews: workspaceReviews}, {path: "/other", reviews: workspaceReviews},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.admitters = r.admitters[:2] // with the race detector, the first handshakes of all can take longer than the timeout of an API server
	round, err := r.run(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if round.dropped != 1 || round.firstDrop == nil {
		t.Errorf("%d admissions were dropped (%v), want 1", round.dropped, round.firstDrop)
	}
	if got, want := int64(len(round.millis)), requests.Load(); got != want {
		t.Errorf("%d admissions were timed, and %d were made", got, want)
	}
}
