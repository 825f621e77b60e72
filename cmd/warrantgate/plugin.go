package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// asKubectlPlugin makes the help text show the program as it was called: kubectl runs a program kubectl-warrantgate as "kubectl
// warrantgate".
func asKubectlPlugin(root *cobra.Command, program string) {
	if !strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + root.Name()}
	var rename func(*cobra.Command)
	rename = func(cmd *cobra.Command) {
		cmd.Example = strings.ReplaceAll(cmd.Example, "  "+root.Name()+" ", "  kubectl "+root.Name()+" ")
		for _, child := range cmd.Commands() {
			rename(child)
		}
	}
	rename(root)
}
