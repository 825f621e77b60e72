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

// guard kills the servers when this process ends for any reason. envtest gives each server its own process group and stops it only
// in a graceful end. Without the guard, a server would keep running after a panic, the timeout of a test, or SIGKILL.
//
// It keeps a named pipe open. A reader gets the end of the pipe when the guard or this process has ended.
type guard struct {
	pipe string
	// close kills the servers that still run. It can be called more than once.
	close func() error
}

func newGuard(dir string) (*guard, error) {
	path := filepath.Join(dir, "guard")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make pipe %s: %w", path, err)
	}
	// It is also open for reading, because an open for writing alone waits for a reader.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &guard{pipe: path, close: sync.OnceValue(func() error {
		// Remove the name first, so that no process opens the pipe after this end is closed and waits forever.
		return errors.Join(os.Remove(path), pipe.Close())
	})}, nil
}

// watched is a script that runs in place of the binary of a server. The server replaces the script's process, and so gets the signals of
// envtest. A second process of the same group waits for the end of the guard. It does not start for --help, which envtest runs first in the
// group of the tests. Only the script itself knows the process ID.
const watched = `#!/bin/sh
if [ "$*" != --help ]; then
	echo $$ >%s
	{ read -r _ <%s; kill -KILL -$$; } >/dev/null 2>&1 &
fi
exec %s "$@"
`

// pidSuffix is the suffix of the file that contains the process ID of a server.
const pidSuffix = ".pid"

// watch writes a script to path that runs binary and ends with the guard. The script must lead a process group.
func (g *guard) watch(path, binary string) error {
	// A child that is forked at this time would keep the open file for a moment, and a file that is open for writing cannot be
	// executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, fmt.Appendf(nil, watched, quoted(path+pidSuffix), quoted(g.pipe), quoted(binary)), 0o700)
}

// quoted quotes a word for the shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
