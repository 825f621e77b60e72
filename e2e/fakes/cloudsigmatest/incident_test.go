package cloudsigmatest_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

func TestIncident(t *testing.T) {
	c, err := cloudsigmatest.Start(t.Context(), cloudsigmatest.Options{Regions: []string{region}})
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
	})
	incident, err := c.Incident()
	if err != nil {
		t.Fatalf("Incident() error = %v", err)
	}
	w := &world{Cloud: c, partner: incident.Client, alice: incident.User, bob: incident.Other}
	names := map[string]string{}
	for _, server := range c.Servers() {
		names[server.UUID] = server.Name + " of " + server.Owner.Email
	}
	want := map[string]string{
		"63dd227a-9502-4311-919e-cd49f3416753": "metal-worker-pool-1-hl9tl-qbrcf of tsap@shalb.com",
		"feaf4d9d-7cdc-4ecc-b2f7-bef11a0c7519": "metal-worker-pool-1-hl9tl-qbrcf of earlier-identity@example.com",
		"4192fc6e-0372-4961-99fa-6dc9d4038dbf": "metal-worker-pool-1-hl9tl-g2b7h of tsap@shalb.com",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	response, err := w.exchange(t.Context(), func(r *exchangeRequest) { r.RequestedSubject = incident.User.Email })
	if err != nil {
		t.Fatal(err)
	}
	asUser := http.Header{"Authorization": {"Bearer " + response.AccessToken}}
	for id, want := range map[string]int{
		incident.Created.UUID: http.StatusOK, incident.Sibling.UUID: http.StatusOK, incident.Stale.UUID: http.StatusForbidden,
	} {
		got := w.do(t, http.MethodGet, strings.ReplaceAll(c.APITemplate(), "{region}", incident.Region)+"servers/"+id+"/", asUser, "")
		if got.status != want {
			t.Errorf("server %s = %d %s, want %d", id, got.status, got.body, want)
		}
	}
	w.wantNoViolations(t)
}

func TestCAFile(t *testing.T) {
	w := newWorld(t)
	path, err := w.CAFile(t.TempDir())
	if err != nil {
		t.Fatalf("CAFile() error = %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(w.CAPEM()), string(content)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if _, err := w.CAFile(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("CAFile() into a directory that does not exist has no error")
	}
}
