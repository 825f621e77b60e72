// Package keystonetest runs a real Keystone on this machine, from Debian's package python3-keystone, for the end-to-end suites.
//
// It is a plain library: every function that waits takes a context and returns an error that says what it waited for.
// Several Keystones may run at the same time; each has its own port and its own directory, listens on the loopback interface
// only, and ends with the process that started it. A start takes some five seconds, a request some ten milliseconds: a suite
// shares one Keystone, and a spec makes a domain of its own.
//
// Keystone caches in its memory and keeps its data in sqlite. Passwords are hashed as cheaply as can be.
package keystonetest
