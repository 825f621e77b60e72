// Package clitest has what the tests of several commands need.
package clitest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Root returns a command with the name of the program and the given subcommands.
func Root(out, errOut io.Writer, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "warrantgate", SilenceUsage: true, SilenceErrors: true}
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(commands...)
	return root
}

// Run runs one of the commands within this process and returns what it prints.
func Run(t *testing.T, commands []*cobra.Command, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr Output
	cmd := Root(&stdout, &stderr, commands...)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// Output is a buffer that may be written and read at the same time.
type Output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

// String returns what was written until now.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// Await waits until condition holds. On a timeout, it reports why it does not.
func Await(t *testing.T, what string, condition func(ctx context.Context) error) {
	t.Helper()
	var last error
	// H1 allows 15 seconds for the slowest condition, a new certificate.
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 15*time.Second, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; last: %v", what, err, last)
	}
}

// WriteFile writes a file of that name into a new directory, and returns its path.
func WriteFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteKubeconfig writes a kubeconfig with a context for each server. The context home is the current one.
func WriteKubeconfig(t *testing.T, servers map[string]string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for name, server := range servers {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	config.CurrentContext = "home"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
