package openstack

import "warrantgate.dev/internal/cloudhttp"

// cloudName is the name of this cloud in metrics.
const cloudName = "openstack"

// Operations of requests.
const (
	opToken  cloudhttp.Operation = "token"
	opServer cloudhttp.Operation = "server"
	opList   cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opToken, opServer, opList)
