package process_test

import (
	"fmt"
	"os"
	"path/filepath"

	"warrantgate.dev/e2e/env/process"
)

// parent starts a process and waits to be killed.
func parent(dir string) int {
	_, err := process.Start(process.Options{
		Name: "child", LogFile: filepath.Join(dir, "child.log"), Binary: "/bin/sh",
		Args: []string{"-c", "echo pid $$ end; exec cat /dev/zero >/dev/null"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}
