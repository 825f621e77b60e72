package openstacktest

import "warrantgate.dev/e2e/fakes/journal"

// Operation is a kind of request.
type Operation string

// Operations of Keystone and Nova.
const (
	Authenticate Operation = "authenticate"
	GetServer    Operation = "get server"
	ListServers  Operation = "list servers"
)

// Request is a request that the front received. Its User, Region and RequestID are empty.
type Request = journal.Request[Operation]
