package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// guard ends servers with this process, however it ends. envtest gives each server a process group of its own and stops it
// in order only: after a panic, when time has run out for the tests, or after SIGKILL, it would run on forever.
//
// It keeps a named pipe open. Whoever reads from the pipe learns that the guard, or this process, is gone.
type guard struct {
	pipe string
	// close kills what still runs. It may be called again.
	close func() error
}

func newGuard(dir string) (*guard, error) {
	path := filepath.Join(dir, "guard")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make pipe %s: %w", path, err)
	}
	// For reading as well, because to open a pipe for writing only waits for a reader.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &guard{pipe: path, close: sync.OnceValue(func() error {
		// First its name, so that nobody waits for this end of the pipe who comes too late to see it close.
		return errors.Join(os.Remove(path), pipe.Close())
	})}, nil
}

// watched has the place of a server's binary. The server takes the place of the script's process, so that it gets the
// signals of envtest; a second process, of the same group, waits for the guard to go. Not for --help, which envtest asks for
// first: that runs in the group of the tests. Nobody but the script itself tells the process id.
const watched = `#!/bin/sh
if [ "$*" != --help ]; then
	echo $$ >%s
	{ read -r _ <%s; kill -KILL -$$; } >/dev/null 2>&1 &
fi
exec %s "$@"
`

// pidSuffix is what the file of a server's process id has after the name of its script.
const pidSuffix = ".pid"

// watch writes a program to path that is binary, and ends with the guard. It has to lead a process group.
func (g *guard) watch(path, binary string) error {
	// A child that is forked meanwhile would hold on to the open file for a moment, and a file that is open for writing
	// cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, fmt.Appendf(nil, watched, quoted(path+pidSuffix), quoted(g.pipe), quoted(binary)), 0o700)
}

// quoted is a word of the shell that stands for itself.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
