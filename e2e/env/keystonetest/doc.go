// Package keystonetest runs a real Keystone on this machine, from Debian's package python3-keystone, for the end-to-end suites. It does not
// depend on Ginkgo: every function that waits takes a context and returns an error with the awaited condition. Several Keystones can run at
// the same time. Each has its own port and its own directory, listens only on the loopback interface, and ends with the process that
// started it. A start takes about five seconds, a request about ten milliseconds. So a suite shares one Keystone, and each spec creates its
// own domain.
//
// Keystone caches in memory and stores its data in sqlite. Passwords have the cheapest hash.
package keystonetest
