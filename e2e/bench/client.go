package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// caller calls handlers as an API server does: with POSTs over one keep-alive connection in HTTP/1.1, which API servers use for
// remote webhooks. It shares the processors with the server, and costs the same with either handler.
type caller struct {
	url     string
	client  *http.Client
	reviews *reviews
}

func newCaller(url string, roots *x509.CertPool, reviews *reviews) *caller {
	return &caller{url: url, client: newClient(roots), reviews: reviews}
}

// newClient returns a client with its own connections.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
}

// call sends one review and returns the response.
func (c *caller) call(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path+"?timeout=3s", bytes.NewReader(c.reviews.next()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return send(c.client, request)
}

// send sends a request and returns the body of the response. The status must be 200.
func send(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s responded %s: %s", request.URL.Path, response.Status, answer)
	}
	return answer, err
}

// verify waits until the server is up and checks the response of a handler.
func (c *caller) verify(ctx context.Context, path string, wantPatch bool) error {
	var answer []byte
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		answer, err = c.call(ctx, path)
		return err == nil, nil // until the server listens
	})
	if err != nil {
		return fmt.Errorf("call %s: %w", path, err)
	}
	return checkAllowed(answer, path, wantPatch)
}

// checkAllowed returns an error if a response denies the object, or if its patch is missing or unexpected.
func checkAllowed(answer []byte, path string, wantPatch bool) error {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return fmt.Errorf("response of %s: %w", path, err)
	}
	if r := review.Response; r == nil || !r.Allowed || (len(r.Patch) > 0) != wantPatch {
		return fmt.Errorf("response of %s has an unexpected verdict or patch: %s", path, answer)
	}
	return nil
}
