package kcptest

import (
	"context"
	"os"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// program is one of the programs that a kcp consists of: a shard, the front-proxy, the cache server. It may be stopped and
// started again: with the same data, at the same place.
type program struct {
	name string
	// url is where it serves.
	url string
	// dir is where it keeps its data.
	dir     string
	logFile string
	binary  string
	args    []string
	// process is nil while it is meant to be down.
	process *process.Process
}

// startNew starts the program without the data of an earlier attempt, which would hold on to the ports of that attempt.
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
	// Asked before its certificate is known.
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return p.process.WaitReady(ctx, p.url+"/readyz", config)
}

// stop may be called when the program does not run.
func (p *program) stop() error {
	if p.process == nil {
		return nil
	}
	running := p.process
	p.process = nil
	return running.Stop()
}

// kill ends the program as a crash would, if it runs.
func (p *program) kill() {
	if p.process != nil {
		p.process.Kill()
		p.process = nil
	}
}

// alive returns an error, with the end of the log, if the program has ended by itself.
func (p *program) alive() error {
	if p.process == nil {
		return nil
	}
	return p.process.Alive()
}
