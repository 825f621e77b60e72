package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// apiServer stores reports as the API server does that has the groups, and records the writes.
type apiServer struct {
	groups  []string
	objects map[string]map[string]any // by path
	version int
	writes  []string
	reads   int
	// rejected is the status of the answer to each apply of a path that contains rejects, 0 if none is rejected.
	rejected int
	rejects  string
}

func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := func(status int, object any) (*http.Response, error) {
		body, err := json.Marshal(object)
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
		}, err
	}
	missing := func() (*http.Response, error) {
		return answer(http.StatusNotFound, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
	}
	at := request.URL.Path
	if !slices.ContainsFunc(s.groups, func(group string) bool { return strings.HasPrefix(at, "/apis/"+group+"/") }) {
		return missing()
	}
	object, exists := s.objects[at]
	switch {
	case request.Method == http.MethodGet && strings.HasSuffix(at, "reports"):
		items := []any{}
		for path, object := range s.objects {
			if strings.HasPrefix(path, strings.TrimSuffix(at, "/"+at[strings.LastIndex(at, "/")+1:])) {
				items = append(items, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
			}
		}
		return answer(http.StatusOK, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": map[string]any{}, "items": items})
	case request.Method == http.MethodGet && exists:
		s.reads++
		return answer(http.StatusOK, object)
	case request.Method == http.MethodDelete && exists:
		s.writes = append(s.writes, "delete "+at)
		delete(s.objects, at)
		return answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
	case request.Method == http.MethodPatch:
		s.writes = append(s.writes, "apply "+at)
		if s.rejected != 0 && strings.Contains(at, s.rejects) {
			return answer(s.rejected, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "rejected", "code": s.rejected})
		}
		applied := map[string]any{}
		if err := json.NewDecoder(request.Body).Decode(&applied); err != nil {
			return nil, err
		}
		s.store(at, applied)
		return answer(http.StatusOK, s.objects[at])
	}
	return missing()
}

// store stores an object, which keeps the fields of others.
func (s *apiServer) store(at string, object map[string]any) {
	s.version++
	for field, value := range s.objects[at] {
		if _, ours := object[field]; !ours {
			object[field] = value
		}
	}
	metadata := object["metadata"].(map[string]any) //nolint:errcheck,forcetypeassert // the writer sets it
	metadata["namespace"] = strings.Split(at, "/")[5]
	metadata["uid"], metadata["resourceVersion"] = at, fmt.Sprint(s.version)
	s.objects[at] = object
}

// took returns the writes since the last call.
func (s *apiServer) took() []string {
	writes := s.writes
	s.writes = nil
	return writes
}

func (s *apiServer) newWriter(t *testing.T, now func() time.Time) *Writer {
	t.Helper()
	writer, err := NewWriter(&rest.Config{Host: "http://api.example.com", Transport: s}, now)
	if err != nil {
		t.Fatal(err)
	}
	return writer
}

func newServer(groups ...string) *apiServer {
	return &apiServer{groups: groups, objects: map[string]map[string]any{}}
}

func result(name string, as openreports.Result, message string) openreports.ReportResult {
	return openreports.ReportResult{
		Policy: "machine-ownership", Rule: "Any", Result: as, Description: message, Subjects: []corev1.ObjectReference{{Kind: "Machine", Name: name}},
	}
}

const (
	open     = "openreports.io"
	policies = "wgpolicyk8s.io"
	pathA    = "/apis/openreports.io/v1alpha1/namespaces/a/reports/warrantgate"
	pathB    = "/apis/openreports.io/v1alpha1/namespaces/b/reports/warrantgate"
	policyA  = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/a/policyreports/warrantgate"
)

type results = map[string][]openreports.ReportResult

// Only changes are written, also after a restart, and what others have done to a report is undone.
func TestWriterWritesChanges(t *testing.T) {
	server := newServer(open)
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	writer := server.newWriter(t, clock)
	replace := func(all results, want ...string) {
		t.Helper()
		if err := writer.Replace(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, server.took()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	one := []openreports.ReportResult{result("worker", "fail", "wrong")}
	both := results{"a": one, "b": {result("other", "pass", "\xff <hostile> \u2028")}}
	replace(both, "apply "+pathA, "apply "+pathB)
	now = now.Add(time.Hour)
	replace(both)
	if server.reads > 0 {
		t.Errorf("%d reads without a change", server.reads)
	}
	writer = server.newWriter(t, clock) // a restart
	replace(both)

	both["a"] = append(one, result("second", "fail", "wrong"))
	if err := writer.Update(t.Context(), results{"a": both["a"]}); err != nil {
		t.Fatal(err)
	}
	replace(both, "apply "+pathA)
	var got []int64
	for _, result := range server.objects[pathA]["results"].([]any) { //nolint:errcheck,forcetypeassert // the writer wrote it
		var decoded openreports.ReportResult
		raw, err := json.Marshal(result)
		if err != nil || json.Unmarshal(raw, &decoded) != nil {
			t.Fatal(err)
		}
		got = append(got, decoded.Timestamp.Seconds)
	}
	if diff := cmp.Diff([]int64{1000, 4600}, got); diff != "" {
		t.Errorf("timestamps (-want +got):\n%s", diff)
	}

	for name, tc := range map[string]struct {
		change func(object map[string]any)
		want   []string
	}{
		"another result":         {func(o map[string]any) { o["results"] = []any{map[string]any{"policy": "mine", "result": "pass"}} }, []string{"apply " + pathA}},
		"another summary":        {func(o map[string]any) { o["summary"] = map[string]any{"pass": 100} }, []string{"apply " + pathA}},
		"another source":         {func(o map[string]any) { o["source"] = "kyverno" }, []string{"apply " + pathA}},
		"what cannot be decoded": {func(o map[string]any) { o["summary"] = "none" }, []string{"apply " + pathA}},
		"no label":               {func(o map[string]any) { o["metadata"] = map[string]any{"name": Name} }, []string{"apply " + pathA}},
		"a field that we leave":  {func(o map[string]any) { o["scope"] = map[string]any{"kind": "Pod"} }, []string{"delete " + pathA, "apply " + pathA}},
		"an annotation":          {func(o map[string]any) { o["metadata"].(map[string]any)["annotations"] = map[string]any{"a": "b"} }, nil}, //nolint:errcheck,forcetypeassert // it is there
		"a time in the far future": {func(o map[string]any) {
			first := o["results"].([]any)[0].(map[string]any) //nolint:errcheck,forcetypeassert // it is there
			first["timestamp"] = map[string]any{"seconds": 1 << 40, "nanos": 0}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.change(server.objects[pathA])
			server.store(pathA, server.objects[pathA])
			replace(both, tc.want...)
			replace(both)
		})
	}

	delete(server.objects, pathA)
	replace(both, "apply "+pathA)
	replace(results{"b": both["b"]}, "delete "+pathA)
	server.objects[pathA] = map[string]any{"metadata": map[string]any{"name": Name, "namespace": "a"}} // not ours
	replace(nil, "delete "+pathB)
}

// A report that the API server rejects is an error for each run, and not more often. In an outage, no further reports are tried.
func TestWriterRejected(t *testing.T) {
	server := newServer(open)
	writer := server.newWriter(t, time.Now)
	server.rejected = http.StatusForbidden
	all := results{"a": {result("worker", "fail", "wrong")}, "b": {result("worker", "fail", "wrong")}}
	err := writer.Replace(t.Context(), all)
	if want := `2 reports could not be written, of the namespaces ["a" "b"]; the first is that of namespace "a": rejected`; err == nil || err.Error() != want {
		t.Errorf("Replace() = %v, want %s", err, want)
	}
	server.took()
	server.rejected = http.StatusServiceUnavailable
	if err := writer.Replace(t.Context(), all); err == nil || len(server.took()) != 1 {
		t.Errorf("Replace() = %v after an outage, and further writes", err)
	}
	server.rejects = "/a/"
	if err := writer.Replace(t.Context(), all); err == nil {
		t.Error("Replace() succeeds without an answer for one namespace")
	}
	if diff := cmp.Diff([]string{"apply " + pathB, "apply " + pathA}, server.took()); diff != "" {
		t.Errorf("the namespace without an answer delays the others (-want +got):\n%s", diff)
	}
	if err := writer.Update(t.Context(), results{}); err != nil || len(server.took()) > 0 {
		t.Errorf("Update() = %v, and writes", err)
	}
}

// A tenant's report that leaves no room for the results, or that is not ours, makes room.
func TestWriterMakesRoom(t *testing.T) {
	server := newServer(open)
	writer := server.newWriter(t, time.Now)
	all := results{"a": {result("worker", "fail", "wrong")}}
	step := func(name string, wantErr bool, want ...string) {
		t.Helper()
		if err := writer.Replace(t.Context(), all); (err != nil) != wantErr {
			t.Errorf("%s: Replace() = %v", name, err)
		}
		if diff := cmp.Diff(want, server.took()); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", name, diff)
		}
	}
	own := func(field string, value any) map[string]any {
		return map[string]any{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": map[string]any{"name": Name}, field: value}
	}
	server.store(pathA, own("scope", map[string]any{"kind": "Pod"}))
	step("of the tenant", false, "delete "+pathA, "apply "+pathA)
	server.store(pathA, own("results", slices.Repeat([]any{map[string]any{"resources": []any{}}}, maxStoredBytes/16)))
	step("large", false, "delete "+pathA, "apply "+pathA)
	server.store(pathA, own("results", []any{}))
	server.rejected = http.StatusServiceUnavailable
	step("an outage", true, "apply "+pathA)
	server.rejected = http.StatusRequestEntityTooLarge
	step("too large", true, "apply "+pathA, "delete "+pathA)
	server.rejected = 0
	step("afterwards", false, "apply "+pathA)
}

func TestWriterKinds(t *testing.T) {
	all := results{"a": {result("worker", "fail", "wrong")}}
	server := newServer()
	writer := server.newWriter(t, time.Now)
	step := func(name string, groups []string, want ...string) {
		t.Helper()
		server.groups = groups
		if err := writer.Replace(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, server.took()); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", name, diff)
		}
	}
	step("none", nil)
	if err := writer.Update(t.Context(), all); err != nil || len(server.took()) > 0 {
		t.Errorf("Update() without a kind = %v", err)
	}
	step("only the earlier kind", []string{policies}, "apply "+policyA)
	if _, has := server.objects[policyA]["source"]; has {
		t.Error("a PolicyReport has no source")
	}
	step("again", []string{policies})
	step("both", []string{policies, open}, "apply "+pathA, "delete "+policyA)
	if got := server.objects[pathA]["source"]; got != "warrantgate" {
		t.Errorf("source %v", got)
	}
	if err := writer.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete " + pathA}, server.took()); diff != "" {
		t.Errorf("Remove(): writes (-want +got):\n%s", diff)
	}
	server.groups = nil
	if err := writer.Remove(t.Context()); err != nil {
		t.Errorf("Remove() without a kind = %v", err)
	}
}

func TestLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		n       int
		message string
		want    int // the number of results besides the one about the others
		omitted bool
	}{
		"none":          {},
		"the most":      {n: maxResults, message: "a", want: maxResults},
		"one more":      {n: maxResults + 1, message: "a", want: maxResults, omitted: true},
		"long messages": {n: 400, message: strings.Repeat("a", 5000), want: 400},
		"long messages with characters that JSON escapes": {n: 400, message: strings.Repeat("<", 5000), want: 83, omitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			var all []openreports.ReportResult
			for i := range tc.n {
				all = append(all, result(fmt.Sprintf("m-%03d", i), "fail", tc.message))
			}
			got := limited("a", all)
			if got.Summary.Fail != tc.n {
				t.Errorf("summary %+v", got.Summary)
			}
			if size := len(encode(got)); size > 2*maxBytes {
				t.Errorf("%d bytes", size)
			}
			listed := len(got.Results)
			if tc.omitted {
				listed--
				last := got.Results[listed]
				if want := fmt.Sprint(tc.n - tc.want); last.Rule != Omitted || last.Properties["omitted"] != want || got.Summary.Skip != 1 ||
					last.Subjects[0] != (corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: "a", Name: "a"}) {
					t.Errorf("last result %+v, want %s omitted", last, want)
				}
			}
			if listed != tc.want {
				t.Errorf("%d results, want %d", listed, tc.want)
			}
		})
	}
}
