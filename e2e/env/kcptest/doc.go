// Package kcptest runs a real kcp and a real warrantgate on this machine, for the end-to-end suites, the demo and the benchmarks. It does
// not depend on Ginkgo: every function that waits takes a context and returns an error with the awaited condition. Several servers can run
// at the same time. Each has its own ports and its own directory, and ends with the process that started it.
package kcptest
