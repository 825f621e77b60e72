package process

import "syscall"

// dieWithParent makes the system kill a child when its parent is killed. The child has its own process group. So an interrupt from
// the keyboard reaches only the parent, which then stops the child gracefully.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
