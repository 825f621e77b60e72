package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

const (
	floodBodies = 1000
	// floodBytes is slightly less than the limit of a review's size.
	floodBytes = 7 << 20
	// podMemory is the memory limit of the chart's pods.
	podMemory = 256 << 20
	// mostMemory leaves 32 MiB of it for other memory. The bodies that are decoded at a time need thirty times largeBudget in the worst case,
	// which is 210 MiB.
	mostMemory = podMemory - 32<<20
)

// released builds the program like a release: with the race detector of the tests it would need many times the memory.
func released(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warrantgate")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "warrantgate.dev/cmd/warrantgate")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return path
}

// TestAThousandLargeBodies sends a thousand large bodies at the same time to a separate process. The process needs no more memory than its
// pod has, and answers every ordinary review. These take about as long as those of another process, on the same machine at the same time.
func TestAThousandLargeBodies(t *testing.T) {
	program := released(t)
	for name, tc := range map[string]struct {
		token bool
		body  []byte
		// want are the allowed status codes.
		want []int
	}{
		"of callers without a token": {body: largeReview(t, false), want: []int{http.StatusNotFound}},
		"of API servers": {
			token: true, body: largeReview(t, false),
			want: []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable},
		},
		"of callers that know the token, with the bodies that need most memory": {
			token: true, body: largeReview(t, true),
			want: []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, process := startProcess(t, program)
			other, _ := startProcess(t, program)
			otherClient := other.certificate.Client(t)
			other.send(t, otherClient, "/workspace/denial-notice")
			client := s.certificate.Client(t)
			s.send(t, client, "/workspace/denial-notice") // API servers keep a connection open
			gatesBefore := gateMetrics(t, s)
			token := s.token
			if !tc.token {
				s.token = ""
			}
			url := s.hook("/workspace/denial-notice") + "?timeout=3s"
			s.token = token

			flooding, stop := context.WithCancel(t.Context())
			peak := make(chan uint64)
			go func() { peak <- peakAnonymous(flooding, process.Pid) }()
			began := time.Now()
			flood := s.startFlood(t, url, tc.body)
			var took, tookOther []time.Duration
			for len(took) < 100 || !flood.hasEnded() {
				took = append(took, latency(func() { s.send(t, client, "/workspace/denial-notice") }))
				tookOther = append(tookOther, latency(func() { other.send(t, otherClient, "/workspace/denial-notice") }))
			}
			answers, broken := flood.result(t)
			lasted := time.Since(began)
			stop()
			most := <-peak
			t.Logf("%d bodies in %s: answers %v, %d connections closed before; anonymous memory %d MiB at most; %d ordinary reviews, p50 %s, p99 %s, "+
				"and of another process p50 %s, p99 %s", floodBodies, lasted.Round(time.Millisecond), answers, broken, most>>20, len(took),
				percentile(took, 50), percentile(took, 99), percentile(tookOther, 50), percentile(tookOther, 99))
			if limit := max(time.Second, 3*percentile(tookOther, 99)); percentile(took, 99) > limit {
				t.Errorf("p99 of ordinary reviews = %s, want at most %s", percentile(took, 99), limit)
			}
			for code := range answers {
				if !slices.Contains(tc.want, code) {
					t.Errorf("answers %v, want only %v", answers, tc.want)
				}
			}
			if most == 0 || most > mostMemory {
				t.Errorf("anonymous memory = %d MiB, want at most %d", most>>20, mostMemory>>20)
			}
			if !tc.token {
				if diff := cmp.Diff(gatesBefore+len(took), gateMetrics(t, s)); diff != "" {
					t.Errorf("counted reviews (-want +got):\n%s", diff)
				}
			}
			for _, serving := range []*serving{s, other} {
				serving.stop()
				if err := serving.awaitEnd(t); err != nil {
					t.Errorf("serve ends with %v: %s", err, serving.logs.String())
				}
			}
			if strings.Contains(s.logs.String(), s.token) {
				t.Error("the token is in the log")
			}
		})
	}
}

// startProcess starts serve as a process, with its own certificate, and waits until it is ready.
func startProcess(t *testing.T, program string) (*serving, *os.Process) {
	t.Helper()
	s := newServing(t)
	command := exec.CommandContext(t.Context(), program, s.args()...)
	command.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%.0f", memoryShare*podMemory)) // as in a pod
	command.Stderr = &s.logs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = func() { _ = command.Process.Signal(syscall.SIGTERM) }
	s.ended = make(chan error, 1)
	go func() { s.ended <- command.Wait() }()
	s.awaitReady(t)
	return s, command.Process
}

func latency(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func percentile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*percent+99)/100-1]
}

// Variables of the process that sends a flood: the URL, and the file with the CA of the server.
const (
	senderURL = "WARRANTGATE_TEST_FLOOD_URL"
	senderCA  = "WARRANTGATE_TEST_FLOOD_CA"
)

// flood is a process that sends a flood. A thousand senders in the process of the test would delay its ordinary reviews.
type flood struct {
	output *bufio.Reader
	ended  chan struct{}
	rest   []byte
}

// sent is the last line of a flood's output.
type sent struct {
	// Answers are the numbers of answers by their status. Broken is the number of connections that the server closed while a body was sent.
	Answers map[int]int
	Broken  int
}

// startFlood starts the process TestFloodSender and waits until it begins to send.
func (s *serving) startFlood(t *testing.T, url string, body []byte) *flood {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFloodSender$")
	command.Env = append(os.Environ(), senderURL+"="+url, senderCA+"="+s.certificates.CertFile)
	command.Stdin, command.Stderr = bytes.NewReader(body), os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	f := &flood{output: bufio.NewReader(output), ended: make(chan struct{})}
	if _, err := f.output.ReadString('\n'); err != nil {
		t.Fatalf("the process that sends the flood: %v", err)
	}
	go func() {
		defer close(f.ended)
		f.rest, _ = io.ReadAll(f.output)
		_ = command.Wait() // without an error, there is a result
	}()
	return f
}

func (f *flood) hasEnded() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

func (f *flood) result(t *testing.T) (answers map[int]int, broken int) {
	t.Helper()
	<-f.ended
	var result sent
	line, _, _ := strings.Cut(string(f.rest), "\n")
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		t.Fatalf("the process that sends the flood: %v: %s", err, f.rest)
	}
	return result.Answers, result.Broken
}

// TestFloodSender sends a flood, in the process that startFlood starts. Other runs send none.
func TestFloodSender(t *testing.T) {
	url := os.Getenv(senderURL)
	if url == "" {
		return
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(os.Getenv(senderCA))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	result := sent{Answers: map[int]int{}}
	var group sync.WaitGroup
	var lock sync.Mutex
	fmt.Println("sending") // for startFlood
	for range floodBodies {
		group.Go(func() {
			code, err := send(t, url, roots, body)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				result.Broken++
				return
			}
			result.Answers[code]++
		})
	}
	group.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		t.Fatal(err)
	}
}

// send sends a body on a new connection, and returns the status of the answer.
func send(t *testing.T, url string, roots *x509.CertPool, body []byte) (int, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, nil
}

// largeReview returns a review of nearly the maximum size. Many small values outside of objects take most memory.
func largeReview(t *testing.T, smallValues bool) []byte {
	t.Helper()
	object := func() runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"tenancy.kcp.io/v1alpha1","kind":"Workspace","metadata":{"name":"team-a","annotations":{`+
			`"kcp.io/cluster":"1dz6n4ubraua7pul","experimental.tenancy.kcp.io/owner":"{\"username\":\"bob\"}","large":%q}}}`, strings.Repeat("x", floodBytes/2-1000))}
	}
	request := &admissionv1.AdmissionRequest{
		UID: "d1", Name: "team-a", Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "alice"}, DryRun: ptr.To(true),
	}
	if smallValues {
		request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		for i := range (floodBytes - 1000) / len(`"000000":[""],`) {
			request.UserInfo.Extra[fmt.Sprintf("%06x", i)] = authenticationv1.ExtraValue{""}
		}
	} else {
		request.Object, request.OldObject = object(), object()
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > floodBytes || len(body) < floodBytes-10_000 {
		t.Fatalf("the review has %d bytes", len(body))
	}
	return body
}

// peakAnonymous returns the maximum anonymous memory of a process, in bytes, until ctx ends.
func peakAnonymous(ctx context.Context, pid int) uint64 {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var peak uint64
	for ctx.Err() == nil {
		if process, err := procfs.NewProc(pid); err == nil {
			if status, err := process.NewStatus(); err == nil {
				peak = max(peak, status.RssAnon)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return peak
}

// gateMetrics returns the number of verdicts that the gates have counted.
func gateMetrics(t *testing.T, s *serving) int {
	t.Helper()
	_, page, err := clitest.Get(t.Context(), "http://"+s.metrics+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "warrantgate_admissions_total{") {
			var n int
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}
