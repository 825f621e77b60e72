// Package process runs the programs of end-to-end tests on this machine and reads their readiness, logs and metrics. No program runs
// longer than the process that started it.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// KeepEnv is the environment variable that, if it is not empty, keeps the directories of servers, with their logs, after the end.
const KeepEnv = "KEEP"

const (
	// pollInterval is the interval between two checks of a process.
	pollInterval = 25 * time.Millisecond
	// gracePeriod is how long a process may take to end after SIGTERM.
	gracePeriod = 15 * time.Second
	// logTailBytes is the size of the part of a log that an error contains.
	logTailBytes = 4 << 10
)

// Options configure a program.
type Options struct {
	// Name is the name of the program in errors.
	Name string
	// LogFile is the file to which the output of the program is appended. Its folder is the working directory of the program.
	LogFile string
	// Binary is the path of the program, Args are its arguments.
	Binary string
	Args   []string
	// Env are environment variables, as KEY=value. They are added to those of this process.
	Env []string
}

// Process is a running program whose output goes to a log file.
type Process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	// ended is closed after err has been set.
	ended chan struct{}
	err   error
}

// Start starts a program. The program ends when the calling process ends, on the systems that dieWithParent names.
func Start(options Options) (*Process, error) {
	log, err := os.OpenFile(options.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", options.Name, err)
	}
	p := &Process{name: options.Name, logFile: options.LogFile, ended: make(chan struct{})}
	p.cmd = exec.Command(options.Binary, options.Args...) //nolint:noctx // it outlives the context of its start; Stop and Kill end it
	p.cmd.Dir = filepath.Dir(options.LogFile)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(p.cmd.Environ(), options.Env...)
	p.cmd.SysProcAttr = dieWithParent()

	started := make(chan error)
	go func() {
		// The system sends the signal of dieWithParent when the starting thread ends, not when the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		_ = log.Close()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// WaitReady waits until the response of url is 200. If the process ends, it returns an error with the end of the log.
func (p *Process) WaitReady(ctx context.Context, url string, config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	last := errors.New("no request yet")
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if p.hasEnded() {
			return false, fmt.Errorf("%s ended: %w", p.name, p.exitError())
		}
		err := probe(ctx, httpClient, url)
		if ctx.Err() == nil { // the poll reports the timeout anyway; the last error of a request is more useful
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w (%s: %w)\n%s", p.name, err, url, last, LogTail(p.logFile))
	}
	return nil
}

// probe returns nil if the response of url is 200.
func probe(ctx context.Context, httpClient *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Send(ctx, httpClient, http.MethodGet, url, nil)
}

// Stop sends SIGTERM to the process, and kills it if it does not end. It can be called again.
func (p *Process) Stop() error {
	if p.hasEnded() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(gracePeriod):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM and was killed\n%s", p.name, gracePeriod, LogTail(p.logFile))
	}
}

// Kill kills the process and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has already ended
	<-p.ended
}

// Alive returns an error, with the end of the log, if the process has ended.
func (p *Process) Alive() error {
	if !p.hasEnded() {
		return nil
	}
	return fmt.Errorf("%s ended: %w\n%s", p.name, p.exitError(), LogTail(p.logFile))
}

// WaitEnd waits until the process has ended. It returns an error, with the end of the log, if the exit status is not 0.
func (p *Process) WaitEnd() error {
	<-p.ended
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%s failed: %w\n%s", p.name, p.err, LogTail(p.logFile))
}

// Signal sends a signal to the process. It returns an error if the process has ended.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// PID is the process ID, for measurements.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Command is the command line of the process.
func (p *Process) Command() []string { return slices.Clone(p.cmd.Args) }

func (p *Process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// exitError returns how an ended process ended.
func (p *Process) exitError() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// LogTail returns the end of a log with its path, for errors. If the log cannot be read, it returns the reason.
func LogTail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(log) > logTailBytes {
		log = log[len(log)-logTailBytes:]
		if _, whole, found := bytes.Cut(log, []byte("\n")); found {
			log = whole
		}
	}
	return fmt.Sprintf("end of %s:\n%s", path, log)
}
