package process

import (
	"context"
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
