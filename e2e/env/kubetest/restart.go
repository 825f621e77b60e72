package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"warrantgate.dev/e2e/env/process"
)

// KillAPIServer kills kube-apiserver, as a crash does. etcd keeps running with all objects. (A graceful stop waits until all watches
// end, for up to a minute.)
func (s *Server) KillAPIServer(ctx context.Context) error {
	apiServer := s.environment.ControlPlane.APIServer
	content, err := os.ReadFile(apiServer.Path + pidSuffix)
	if err != nil {
		return fmt.Errorf("kill kube-apiserver: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("kill kube-apiserver: %w", err)
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill kube-apiserver: %w", err)
	}
	// Stop returns an error until the process has ended.
	var last error
	err = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = apiServer.Stop()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until kube-apiserver has ended: %w", errors.Join(last, err))
	}
	return nil
}

// StartAPIServer starts kube-apiserver again on the same address, and returns when it is healthy. The end of ctx does not end a
// start.
func (s *Server) StartAPIServer(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start kube-apiserver again: %w", err)
	}
	apiServer := s.environment.ControlPlane.APIServer
	apiServer.StartTimeout = remaining(ctx)
	if err := apiServer.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver again: %w\n%s", err, process.LogTail(s.LogFile()))
	}
	return nil
}
