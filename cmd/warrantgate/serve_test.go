package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// serveArgs returns the arguments with which serve starts, on free ports, with its own certificate and token.
func serveArgs(t *testing.T) []string {
	t.Helper()
	files, addresses := clitest.NewCertificate(t).Write(t, t.TempDir()), clitest.FreeAddresses(t, 3)
	token := strings.ToLower(rand.Text() + rand.Text())
	return []string{
		"serve", "--webhook-address=" + addresses[0], "--metrics-address=" + addresses[1], "--health-address=" + addresses[2],
		"--tls-cert-file=" + files.CertFile, "--tls-private-key-file=" + files.KeyFile, "--webhook-path-file=" + clitest.WriteFile(t, "webhook-path", token+"\n"),
	}
}

func TestMistakesAboutClients(t *testing.T) {
	caFile := clitest.WriteFile(t, "ca.crt", string(clitest.NewCertificate(t).Cert))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"names without a CA": {
			args: []string{"--client-names=kcp"},
			want: "--client-names needs --client-ca-file, the CA of the client certificates",
		},
		"a CA without names": {
			args: []string{"--client-ca-file=" + caFile},
			want: "--client-ca-file needs --client-names, the common names of API servers, because the CA also signs other clients; got []",
		},
		"a name that is empty": {
			args: []string{"--client-ca-file=" + caFile, "--client-names=kcp,"},
			want: `--client-ca-file needs --client-names, the common names of API servers, because the CA also signs other clients; got ["kcp" ""]`,
		},
		"a file that is not there": {
			args: []string{"--client-ca-file=/nonexistent", "--client-names=kcp"},
			want: "--client-ca-file: open /nonexistent: no such file or directory",
		},
		"a file without a certificate": {
			args: []string{"--client-ca-file=" + clitest.WriteFile(t, "empty.crt", "x"), "--client-names=kcp"},
			want: "--client-ca-file: error loading CA bundle for",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The program runs in a separate process, so that anything it began before it found the mistake ends with that process.
			out, err := program(t, append(serveArgs(t), tc.args...)...).CombinedOutput()
			if err == nil || !strings.HasPrefix(string(out), "warrantgate: "+tc.want) {
				t.Errorf("%v: %s, want %s", err, out, tc.want)
			}
		})
	}
}

// The program itself runs here: a signal ends it, and that is no failure.
func TestSIGTERMEndsServeWithExitCode0(t *testing.T) {
	health := clitest.FreeAddresses(t, 1)[0]
	cmd := program(t, append(serveArgs(t), "--health-address="+health)...)
	var logs clitest.Output
	cmd.Stderr = &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	clitest.Await(t, "ready", func(ctx context.Context) error {
		select {
		case err := <-ended:
			t.Fatalf("serve has ended: %v\n%s", err, logs.String())
		default:
		}
		code, body, err := clitest.Get(ctx, "http://"+health+"/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "end", func(context.Context) error {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the program ends with %v\n%s", err, logs.String())
			}
			return nil
		default:
			return errors.New("serve is still running")
		}
	})
}
