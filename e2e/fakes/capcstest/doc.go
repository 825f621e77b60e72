// Package capcstest is a fake of the Cluster API provider for CloudSigma (CAPCS), for the end-to-end suites. It has the order of writes,
// the waits and the errors of the real one at commit e03b577, of which no Go module is published. It acts on machines through an API
// server as its own user, and on servers through package cloudsigmatest with impersonated tokens, or with a user name and a password.
//
// Two properties of the real provider decide what a denied or lost write costs. It names a server in two writes, status.instanceID
// first and spec.providerID second, and never clears spec.providerID. And it looks for a server that it may have created before only
// on the first page of the user's servers.
//
// What does not write to a machine's fields for a server is left out: drives, networks, tags, start and stop of servers, bootstrap
// data, addresses and conditions. Objects are read from the API server and not from a cache, so that no read is outdated.
package capcstest
