package kcptest

import (
	"context"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Restart ends kcp in order and starts it again, where it was and with its data.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.process.stop(); err != nil {
		return err
	}
	ended := s.process.cmd
	process, err := startProcess(s.process.name, s.LogFile(), ended.Path, ended.Args[1:]...)
	if err != nil {
		return err
	}
	s.process = process
	known := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: s.config("root").CAData}}
	if err := process.waitReady(ctx, s.url+"/readyz", known); err != nil {
		return err
	}
	// kcp gives its administrators new tokens.
	s.raw, err = clientcmd.LoadFromFile(s.AdminKubeconfig())
	return err
}
