// Package model has tenants write random sequences of requests to a real API server with a real warrantgate, and looks after each
// admitted write whether what warrantgate promises still holds:
//
//   - No machine holds an instance whose owner is not the user that its provider acts as, unless it did so before the write.
//   - No two machines hold one instance, unless they did so before the write. On kcp those of one workspace count.
//   - No tenant has named a user whom it may not impersonate.
//   - No refusal names what belongs to another tenant.
//
// It knows the objects, the users and the servers of the cloud, and how a provider finds the user of a machine. It does not know
// how warrantgate decides. A sequence that breaks a promise is made as short as possible by pgregory.net/rapid.
package model
