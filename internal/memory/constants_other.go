//go:build !linux

package memory

// unmapConstants does nothing: what is known of Linux may not hold elsewhere.
func unmapConstants() error { return nil }
