//go:build e2e

// Package oslopolicy_test compares our reading of policy files with the real oslo.policy, on the same files and questions.
package oslopolicy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/keystonetest"
)

// specTimeout limits a spec. All of them together take some ten seconds.
const specTimeout = 5 * time.Minute

// oslo is the reference that the specs share.
var oslo *reference

func TestOsloPolicy(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "oslo.policy")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	oslo, err = startReference(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return oslo.stop() })
}, NodeTimeout(specTimeout))

// reference is the Python program that evaluates policies with the real oslo.policy.
type reference struct {
	cmd    *exec.Cmd
	in     *json.Encoder
	closer func() error
	out    *bufio.Reader
}

func startReference(ctx context.Context) (*reference, error) {
	if err := keystonetest.Find(ctx); err != nil { // its package needs that of oslo.policy
		return nil, err
	}
	program, err := filepath.Abs(filepath.Join("..", "..", "servers", "keystone", "reference.py"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), keystonetest.Python(), program) // it runs longer than the node that starts it
	cmd.Stderr = GinkgoWriter
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reference{cmd: cmd, in: json.NewEncoder(in), closer: in.Close, out: bufio.NewReader(out)}, nil
}

func (r *reference) stop() error { return errors.Join(r.closer(), r.cmd.Wait()) }

// call sends one request and reads the reply.
func (r *reference) call(request, reply any) {
	GinkgoHelper()
	Expect(r.in.Encode(request)).To(Succeed())
	line, err := r.out.ReadBytes('\n')
	Expect(err).NotTo(HaveOccurred(), "the reference ended")
	Expect(json.Unmarshal(line, reply)).To(Succeed())
}
