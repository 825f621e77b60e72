// The releases of Kubernetes whose OpenAPI schemas the chart is held against: see .ci/schemas, which downloads them. They are
// named apart, as a module can be required in one version only. To take another release of a minor, change both of its lines,
// remove its lines from schemas.sum, and run ".ci/schemas bin/schemas".
module warrantgate.dev/schemas

go 1.26.0

require (
	k8s.io/kubernetes-1.33 v1.33.13
	k8s.io/kubernetes-1.34 v1.34.4
	k8s.io/kubernetes-1.35 v1.35.4
	k8s.io/kubernetes-1.36 v1.36.0
)

replace (
	k8s.io/kubernetes-1.33 => k8s.io/kubernetes v1.33.13
	k8s.io/kubernetes-1.34 => k8s.io/kubernetes v1.34.4
	k8s.io/kubernetes-1.35 => k8s.io/kubernetes v1.35.4
	k8s.io/kubernetes-1.36 => k8s.io/kubernetes v1.36.0
)
