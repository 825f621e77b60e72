package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// requestCounter is a proxy in front of Keystone that counts all requests.
type requestCounter struct {
	// authURL is the address of the proxy.
	authURL  string
	requests atomic.Int64
	server   *httptest.Server
}

// countRequests starts a counter in front of the Keystone of an auth URL. Call Stop at the end.
func countRequests(authURL string) (*requestCounter, error) {
	keystone, err := url.Parse(authURL)
	if err != nil {
		return nil, fmt.Errorf("auth URL of Keystone: %w", err)
	}
	path := keystone.Path
	keystone.Path = ""
	proxy := &httputil.ReverseProxy{Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(keystone) }}
	c := &requestCounter{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	c.authURL = c.server.URL + path
	return c, nil
}

func (c *requestCounter) count() int64 { return c.requests.Load() }

func (c *requestCounter) stop() { c.server.Close() }
