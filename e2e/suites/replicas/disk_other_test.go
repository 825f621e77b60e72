//go:build e2e && !linux

package replicas_test

// mountSmall mounts nothing here. For a reader, a truncated file is equivalent.
func mountSmall(string) bool { return false }
