// Package openstacktest stands for Nova on this machine, for the end-to-end suites. The Keystone beside it is a real one.
//
// It knows two requests, those of the servers that a project sees, and judges each by its token, as the real one does: whose
// the token is, is asked of Keystone. What it does not know is refused and kept as a violation, so that a suite can assert
// that there are none.
//
// It is a plain library. All state can be changed while it runs. Several may run at the same time.
package openstacktest
