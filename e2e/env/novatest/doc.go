// Package novatest runs a real Nova on this machine, from Debian's package python3-nova, for the end-to-end suites.
//
// It runs only the compute API with its databases in sqlite. Functions add and remove the servers of projects with Nova's own objects. No
// hypervisor runs the servers. A real Keystone verifies the tokens; see package keystonetest. Nova requests the security groups of servers
// from a Neutron, which responds that there are none. It does not depend on Ginkgo: every function that waits takes a context and returns
// an error with the awaited condition. Several can run at the same time. Each has its own ports and its own directory, listens only on the
// loopback interface, and ends with the process that started it. A suite shares one Nova, and each spec creates its own project.
package novatest
