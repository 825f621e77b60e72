// Package model makes tenants write random sequences of requests to a real API server with a real warrantgate. After each admitted
// write, it verifies warrantgate's promises:
//
//   - No machine holds an instance whose owner is not the user that its provider acts as, unless it did so before the write, or its owner Machine was
//     created with another label than its own.
//   - No two machines hold one instance, unless they did so before the write. On kcp those of one workspace count.
//   - On Kubernetes, what two writes at once make wrong in these two ways is an Event soon.
//   - No tenant has named a user that it may not impersonate.
//   - No denial names the property of another tenant.
//
// The model contains the objects, the users and the servers of the cloud, and how a provider finds the user of a machine. It does
// not contain how warrantgate decides. The library pgregory.net/rapid shortens a sequence that breaks a promise as far as possible.
package model
