package process

import "syscall"

// dieWithParent makes the system kill a child whose parent was killed before it could stop it. The child has a process
// group of its own, so that an interrupt from the keyboard reaches only the parent, which then stops it in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
