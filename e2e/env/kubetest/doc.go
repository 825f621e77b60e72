// Package kubetest runs a real kube-apiserver with its etcd, and a real warrantgate, on this machine, for the end-to-end
// suites, the demo and the benchmarks.
//
// It is a plain library: every function that waits takes a context and returns an error that says what it waited for.
// Several servers may run at the same time; each has its own ports and its own directory, listens on the loopback
// interface only, and ends with the process that started it. There are no controllers: a Deployment makes no Pods, a
// ServiceAccount comes about only if a test makes it, and nobody collects garbage.
package kubetest
