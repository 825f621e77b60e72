package cloudhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"warrantgate.dev/internal/cloudhttp"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		value string
		want  time.Duration
	}{
		"seconds":               {value: "120", want: 2 * time.Minute},
		"zero seconds":          {value: "0"},
		"negative seconds":      {value: "-5"},
		"a fraction":            {value: "1.5"},
		"more than the longest": {value: "86400", want: time.Hour},
		"the largest number":    {value: "18446744073709551615", want: time.Hour},
		"more than 64 bits":     {value: "99999999999999999999999"},
		"a date":                {value: at(30 * time.Second), want: 30 * time.Second},
		"a date in the past":    {value: at(-time.Second)},
		"a date far away":       {value: at(100 * 365 * 24 * time.Hour), want: time.Hour},
		"the last date":         {value: "Fri, 31 Dec 9999 23:59:59 GMT", want: time.Hour},
		"not a date":            {value: "tomorrow"},
		"empty":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			header.Set("Retry-After", tc.value)
			if got := cloudhttp.RetryAfter(header, now, time.Hour); got != tc.want {
				t.Errorf("RetryAfter(%q) = %s, want %s", tc.value, got, tc.want)
			}
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
