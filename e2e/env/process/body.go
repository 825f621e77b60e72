package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Body returns the body of the response of a URL, whatever its status is: the endpoints for probes give the reason in it.
func Body(ctx context.Context, url string) (string, error) { return BodyAs(ctx, url, "*/*") }

// BodyAs is Body for an Accept header.
func BodyAs(ctx context.Context, url, accept string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

// Send sends a request, and returns an error unless the status of the response is 200.
func Send(ctx context.Context, httpClient *http.Client, method, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
