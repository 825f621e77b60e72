package cloudsigma

import "warrantgate.dev/internal/cloudhttp"

// cloudName is the label value of this cloud in metrics.
const cloudName = "cloudsigma"

// Operations of requests.
const (
	opServer  cloudhttp.Operation = "server"
	opProfile cloudhttp.Operation = "profile"
	opList    cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opServer, opProfile, opList)
