//go:build !linux

package process

import "syscall"

// dieWithParent does what it says on Linux only. Elsewhere a server stays behind if its parent is killed.
func dieWithParent() *syscall.SysProcAttr {
	return nil
}
