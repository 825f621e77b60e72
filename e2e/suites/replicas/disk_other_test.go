//go:build e2e && !linux

package replicas_test

// mountSmall does not mount a file system on this platform. For a reader, a truncated file is equivalent.
func mountSmall(string) bool { return false }
