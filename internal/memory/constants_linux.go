package memory

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// unmapConstants takes out of memory what the program's file holds besides code and variables: types, texts and tables of the
// runtime, about half of the file. The initialization of hundreds of packages has touched nearly all of it, and some percent
// are needed ever again. Linux maps those anew when they are touched, from its cache of the file, and may use the rest of that
// cache for others, which it may not with what is mapped. Code is left alone: there a tracer's breakpoints would get lost.
//
// It refuses programs that can lie anywhere in memory (-buildmode=pie): some of their constants have been written when they were
// loaded, and are in no file.
func unmapConstants() error {
	if mode := buildMode(); mode != "exe" {
		return fmt.Errorf("its -buildmode is %q, not \"exe\"", mode)
	}
	self, err := procfs.Self()
	if err != nil {
		return err
	}
	program, err := self.Executable()
	if err != nil {
		return err
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return err
	}
	for _, m := range maps {
		if m.Pathname != program || !m.Perms.Read || m.Perms.Write || m.Perms.Execute {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, unix.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}

// buildMode is how the program was built, "" if it does not tell.
func buildMode() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "-buildmode" {
				return setting.Value
			}
		}
	}
	return ""
}
