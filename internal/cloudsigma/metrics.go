package cloudsigma

import "warrantgate.dev/internal/cloudhttp"

// cloudName is the word for this cloud in metrics.
const cloudName = "cloudsigma"

// What requests are for.
const (
	opServer  cloudhttp.Operation = "server"
	opProfile cloudhttp.Operation = "profile"
	opList    cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opServer, opProfile, opList)
