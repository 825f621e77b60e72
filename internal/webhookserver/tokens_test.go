package webhookserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const syntax = ` is not a token: it must be 32 to 128 lower-case letters and digits, such as the output of "openssl rand -hex 32"`

func TestParseTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    []string
		wantErr string
	}{
		"one":                       {content: token, want: []string{token}},
		"several, in order":         {content: next + "\n" + token + "\n", want: []string{next, token}},
		"empty lines and spaces":    {content: "\n " + token + " \r\n\n\t\n" + next + "\r\n", want: []string{token, next}},
		"the longest":               {content: strings.Repeat("a", 128), want: []string{strings.Repeat("a", 128)}},
		"none":                      {content: "\n \n", wantErr: `it contains no token; create one with "openssl rand -hex 32"`},
		"less than 128 bits":        {content: strings.Repeat("a", 31), wantErr: "line 1" + syntax},
		"too long":                  {content: strings.Repeat("a", 129), wantErr: "line 1" + syntax},
		"two segments":              {content: token + "\n" + token + "/x", wantErr: "line 2" + syntax},
		"dots":                      {content: strings.Repeat(".", 32), wantErr: "line 1" + syntax},
		"two tokens on a line":      {content: token + " " + next, wantErr: "line 1" + syntax},
		"an escape":                 {content: token + "%2F", wantErr: "line 1" + syntax},
		"a capital letter":          {content: token + "A", wantErr: "line 1" + syntax},
		"a dash":                    {content: token + "-", wantErr: "line 1" + syntax},
		"a parameter":               {content: token + "?", wantErr: "line 1" + syntax},
		"a letter outside of ASCII": {content: token + "é", wantErr: "line 1" + syntax},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTokens([]byte(tc.content))
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got.current.Load()); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
			if got.First() != tc.want[0] {
				t.Errorf("the first is %q", got.First())
			}
		})
	}
}

func TestTokensAreReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token)
	synctest.Test(t, func(t *testing.T) {
		tokens, err := NewTokens(file)
		if err != nil {
			t.Fatal(err)
		}
		var logged []string
		ctx, stop := context.WithCancel(logf.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})))
		ended := make(chan error)
		go func() { ended <- tokens.Start(ctx) }()
		accepted := func() string {
			time.Sleep(3*reloadInterval + reloadInterval/2) //nolint:forbidigo // of the bubble
			text := ""
			for _, each := range []string{token, next} {
				text += fmt.Sprintf("%t %t ", tokens.accept(each, ""), tokens.accept(TokenFor(each, "a"), "a"))
			}
			return text + tokens.First()
		}
		var got []string
		got = append(got, accepted())
		write(token + "\n" + next)
		got = append(got, accepted())
		write(next + "\n" + token)
		got = append(got, accepted())
		write("nonsense")
		got = append(got, accepted(), accepted())
		write(next)
		got = append(got, accepted())
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		got = append(got, accepted())
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		both := "true true true true "
		only := "false false true true " + next
		want := []string{"true true false false " + token, both + token, both + next, both + next, both + next, only, only}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tokens that are accepted, and the first (-want +got):\n%s", diff)
		}
		wantLog := []string{
			`"level"=0 "msg"="loaded the tokens of the webhook path" "tokens"=2`,
			`"level"=0 "msg"="loaded the tokens of the webhook path" "tokens"=2`,
			`"msg"="cannot read the tokens of the webhook path; the previous tokens stay valid" "error"="` + file + ": line 1" + strings.ReplaceAll(syntax, `"`, `\"`) + `"`,
			`"level"=0 "msg"="loaded the tokens of the webhook path" "tokens"=1`,
			`"msg"="cannot read the tokens of the webhook path; the previous tokens stay valid" "error"="open ` + file + `: no such file or directory"`,
		}
		if diff := cmp.Diff(wantLog, logged); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestParsedTokensDoNotChange(t *testing.T) {
	if err := tokens(t).Start(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNewTokensWithMissingFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing")
	if _, err := NewTokens(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error = %v", err)
	}
}

func TestHide(t *testing.T) {
	text := `Post "https://warrantgate.example.com/` + token + `/gate?timeout=3s": EOF, and ` + next + ", and /" + TokenFor(next, "a") + "/kcp/a/gate\n"
	want := `Post "https://warrantgate.example.com/TOKEN/gate?timeout=3s": EOF, and TOKEN, and /TOKEN/kcp/a/gate` + "\n"
	if diff := cmp.Diff(want, string(tokens(t).Hide([]byte(text)))); diff != "" {
		t.Errorf("Hide() (-want +got):\n%s", diff)
	}
}
