//go:build !linux

package process

import "syscall"

// dieWithParent works only on Linux. On other systems, a server keeps running if its parent is killed.
func dieWithParent() *syscall.SysProcAttr {
	return nil
}
