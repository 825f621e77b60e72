// Package openstacktest is a proxy in front of a real Keystone or Nova of packages keystonetest and novatest, for the end-to-end suites.
//
// It forwards, records and counts requests, and injects faults: errors, blocked requests and latency, which a real server does not have on
// demand. It accepts only the requests that warrantgate may send: authentications, and the two requests about servers. It rejects all others and records them as violations.
// Each suite asserts that there are no violations. It serves HTTPS, as the endpoints of a cloud do. It does not depend on Ginkgo. Faults
// can change while it runs. Several fronts can run at the same time.
package openstacktest
