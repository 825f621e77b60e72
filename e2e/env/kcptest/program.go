package kcptest

import (
	"context"
	"os"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// program is one of the programs of a kcp: a shard, the front-proxy or the cache server. It can stop and start again with the same
// data and the same port.
type program struct {
	name string
	// url is the URL of its API.
	url string
	// dir is the directory of its data.
	dir     string
	logFile string
	binary  string
	args    []string
	// process is nil while the program is stopped.
	process *process.Process
}

// startNew starts the program without the data of an earlier attempt, because that data contains the ports of that attempt.
func (p *program) startNew() error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	return p.start()
}

func (p *program) start() (err error) {
	p.process, err = process.Start(process.Options{Name: p.name, LogFile: p.logFile, Binary: p.binary, Args: p.args})
	return err
}

func (p *program) waitReady(ctx context.Context) error {
	// The probe does not verify the certificate, which is not known yet.
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return p.process.WaitReady(ctx, p.url+"/readyz", config)
}

// stop does nothing if the program does not run.
func (p *program) stop() error {
	if p.process == nil {
		return nil
	}
	running := p.process
	p.process = nil
	return running.Stop()
}

// kill kills the program, as a crash does, if it runs.
func (p *program) kill() {
	if p.process != nil {
		p.process.Kill()
		p.process = nil
	}
}

// alive returns an error, with the end of the log, if the program has ended without a stop.
func (p *program) alive() error {
	if p.process == nil {
		return nil
	}
	return p.process.Alive()
}
