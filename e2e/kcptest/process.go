package kcptest

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
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	// pollInterval is how often a process or an object is looked at.
	pollInterval = 25 * time.Millisecond
	// gracePeriod is how long a process may take to end after SIGTERM.
	gracePeriod = 15 * time.Second
	// logTailBytes is how much of a log an error carries.
	logTailBytes = 4 << 10
)

// process is a running program whose output goes to a log file.
type process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	// ended is closed after err has been set.
	ended chan struct{}
	err   error
}

// startProcess starts a program that ends at the latest with the process that called it.
func startProcess(name, logFile, binary string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	p := &process{name: name, logFile: logFile, ended: make(chan struct{})}
	p.cmd = exec.Command(binary, args...) //nolint:noctx // it outlives the context of its start; stop and kill end it
	p.cmd.Dir = filepath.Dir(logFile)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = dieWithParent()

	started := make(chan error)
	go func() {
		// The system sends the signal of dieWithParent when the starting thread ends, not the process.
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
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// waitReady waits until url answers 200. It ends early, with the end of the log, if the process ends.
func (p *process) waitReady(ctx context.Context, url string, config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	last := errors.New("not asked yet")
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("%s ended: %w", p.name, p.exitError())
		default:
		}
		last = probe(ctx, httpClient, url)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w (%s: %w)\n%s", p.name, err, url, last, p.logTail())
	}
	return nil
}

// probe returns nil if url answers 200.
func probe(ctx context.Context, httpClient *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// stop asks the process to end, and makes it end if it does not. It may be called again.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(gracePeriod):
		p.kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM and was killed\n%s", p.name, gracePeriod, p.logTail())
	}
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has already ended
	<-p.ended
}

// exitError says how an ended process ended.
func (p *process) exitError() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// logTail returns the end of the log, for errors.
func (p *process) logTail() string {
	log, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	if len(log) > logTailBytes {
		log = log[len(log)-logTailBytes:]
		if _, whole, found := bytes.Cut(log, []byte("\n")); found {
			log = whole
		}
	}
	return fmt.Sprintf("end of %s:\n%s", p.logFile, log)
}
