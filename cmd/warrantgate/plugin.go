package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// asKubectlPlugin makes the output show the program as it was called: kubectl runs a program kubectl-warrantgate as "kubectl
// warrantgate".
func asKubectlPlugin(root *cobra.Command, program string) {
	if !strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + root.Name()}
	var rename func(*cobra.Command)
	rename = func(cmd *cobra.Command) {
		cmd.Example = strings.ReplaceAll(cmd.Example, "  "+root.Name()+" ", "  kubectl "+root.Name()+" ")
		cmd.Long = strings.ReplaceAll(cmd.Long, `"`+root.Name()+" ", `"kubectl `+root.Name()+" ")
		for _, child := range cmd.Commands() {
			rename(child)
		}
	}
	rename(root)
	root.SetOut(pluginWriter{root.OutOrStdout()})
	root.SetErr(pluginWriter{root.ErrOrStderr()})
}

// pluginWriter writes the commands in messages, which are in backticks, as those of the plugin. Each message is one write.
type pluginWriter struct{ out io.Writer }

// Fd returns the file descriptor of the output, for what is shown on a terminal only.
func (w pluginWriter) Fd() uintptr {
	if file, ok := w.out.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}

// Write implements io.Writer.
func (w pluginWriter) Write(text []byte) (int, error) {
	if _, err := w.out.Write(bytes.ReplaceAll(text, []byte("`warrantgate "), []byte("`kubectl warrantgate "))); err != nil {
		return 0, err
	}
	return len(text), nil
}
