package openstack

import "warrantgate.dev/internal/cloudhttp"

// cloudName is the word for this cloud in metrics.
const cloudName = "openstack"

// What requests are for.
const (
	opToken  cloudhttp.Operation = "token"
	opServer cloudhttp.Operation = "server"
	opList   cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opToken, opServer, opList)
