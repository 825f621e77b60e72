package cloudhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

func TestRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  time.Duration
	}{
		"seconds":                {value: "120", want: 2 * time.Minute},
		"zero seconds":           {value: "0"},
		"negative seconds":       {value: "-5"},
		"a fraction":             {value: "1.5"},
		"more than five minutes": {value: "86400", want: 5 * time.Minute},
		"the largest number":     {value: "18446744073709551615", want: 5 * time.Minute},
		"more than 64 bits":      {value: "99999999999999999999999"},
		"a date":                 {value: "Sat, 01 Jan 2000 00:00:30 GMT", want: 30 * time.Second},
		"a date in the past":     {value: "Fri, 31 Dec 1999 23:59:59 GMT"},
		"the last date":          {value: "Fri, 31 Dec 9999 23:59:59 GMT", want: 5 * time.Minute},
		"not a date":             {value: "tomorrow"},
		"empty":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it begins on 1 January 2000
				x := newExchange(roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody, Header: http.Header{"Retry-After": {tc.value}}}, nil
				}))
				if response, err := x.get(t, "https://cloud.example/"); err == nil {
					_ = response.Body.Close()
				}
				if got := x.Unknown(ownership.CauseRateLimited, nil).RetryAfter; got != tc.want {
					t.Errorf("Retry-After %q = %s, want %s", tc.value, got, tc.want)
				}
			})
		})
	}
}

func TestRequestID(t *testing.T) {
	for name, tc := range map[string]struct{ value, want string }{
		"printable":         {value: "7a-b_c.9 D", want: "7a-b_c.9 D"},
		"long":              {value: strings.Repeat("x", 200), want: strings.Repeat("x", 128)},
		"not printable":     {value: "a\tb\x7fc\u202ed\u00e9e", want: "abcde"},
		"nothing printable": {value: "\u00e9"},
		"none":              {},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{"X-Request-Id": {tc.value}}}, nil
			}))
			if got := x.RequestID(); got != "" {
				t.Errorf("RequestID() = %q before the response", got)
			}
			response, err := x.get(t, "https://cloud.example/")
			if err != nil {
				t.Fatalf("error = %v", err)
			}
			defer response.Body.Close()
			if got := x.RequestID(); got != tc.want {
				t.Errorf("RequestID() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSendable(t *testing.T) {
	for name, tc := range map[string]struct {
		token string
		want  bool
	}{
		"a token":            {token: "gAAAAABk-_.~+/=", want: true},
		"the maximum length": {token: strings.Repeat("x", 16<<10), want: true},
		"longer":             {token: strings.Repeat("x", 16<<10+1)},
		"none":               {},
		"a space":            {token: "a b"},
		"a line break":       {token: "a\r\nX-Evil: b"},
		"not ASCII":          {token: "\u00e9"},
		"not UTF-8":          {token: "a\xff"},
		"a delete character": {token: "a\x7f"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cloudhttp.Sendable(tc.token); got != tc.want {
				t.Errorf("Sendable() = %t, want %t", got, tc.want)
			}
		})
	}
}
