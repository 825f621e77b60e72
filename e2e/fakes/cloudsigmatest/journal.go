package cloudsigmatest

import "warrantgate.dev/e2e/fakes/journal"

// Operation is a kind of request.
type Operation string

// Operations of the identity provider and of CloudSigma.
const (
	ClientCredentials Operation = "client_credentials"
	UMATicket         Operation = "uma-ticket"
	TokenExchange     Operation = "token-exchange"
	Keys              Operation = "keys"
	Discovery         Operation = "discovery"

	Impersonate  Operation = "impersonate"
	GetProfile   Operation = "get profile"
	GetServer    Operation = "get server"
	ListServers  Operation = "list servers"
	CreateServer Operation = "create servers"
	DeleteServer Operation = "delete server"
)

// Request is a request that the cloud received. Its User is the email address of the user that the request acts as or, for a request
// for a token, the subject that the client requests. For a token of the client itself, it is "service-account-<client ID>". Its Region
// is "" at the identity provider. Its RequestID is in the header X-Request-Id of the response.
type Request = journal.Request[Operation]
