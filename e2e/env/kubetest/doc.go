// Package kubetest runs a real kube-apiserver with its etcd, and a real warrantgate, on this machine, for the end-to-end suites, the demo
// and the benchmarks. It does not depend on Ginkgo: every function that waits takes a context and returns an error with the awaited
// condition. Several servers can run at the same time. Each has its own ports and its own directory, listens only on the loopback
// interface, and ends with the process that started it. There are no controllers: a Deployment has no Pods, a ServiceAccount exists only if
// a test creates it, and there is no garbage collection.
package kubetest
