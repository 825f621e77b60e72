// Package cli holds what several commands have in common: kubeconfigs, exit codes, the log and the version.
package cli
