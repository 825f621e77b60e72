//go:build e2e

package release_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"

	. "github.com/onsi/ginkgo/v2"
)

// releasePage is the part of GitHub's API with which goreleaser creates a release and uploads its files.
type releasePage struct {
	address string
	mutex   sync.Mutex
	files   map[string]string
	created publishedRelease
}

// publishedRelease are the fields of a release that are compared.
type publishedRelease struct {
	Tag   string `json:"tag_name"`
	Body  string `json:"body"`
	Draft bool   `json:"draft"`
}

func startReleasePage() *releasePage {
	p := &releasePage{files: map[string]string{}}
	const releases = "/repos/example/warrantgate/releases"
	calls := http.NewServeMux()
	calls.HandleFunc("GET /api/v3/rate_limit", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"resources": {"core": {"limit": 5000, "remaining": 5000}}}`)
	})
	calls.HandleFunc("POST /api/v3"+releases, p.change)
	calls.HandleFunc("PATCH /api/v3"+releases+"/1", p.change)
	calls.HandleFunc("POST /api/uploads"+releases+"/1/assets", func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.files[r.URL.Query().Get("name")] = string(content)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 1}`)
	})
	server := httptest.NewServer(calls)
	DeferCleanup(server.Close)
	p.address = server.URL
	return p
}

// change sets the fields that a request names.
func (p *releasePage) change(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := json.NewDecoder(r.Body).Decode(&p.created); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, `{"id": 1}`)
}

// uploaded are the contents of the uploaded files, by name.
func (p *releasePage) uploaded() map[string]string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.files)
}

func (p *releasePage) release() publishedRelease {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.created
}
