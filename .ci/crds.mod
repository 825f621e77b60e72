// The releases whose CRDs the chart's examples are held against: see .ci/crds, which downloads them. To take another release, change its
// line, remove its lines from crds.sum, and run ".ci/crds bin/crds".
module warrantgate.dev/crds

go 1.26.0

require (
	github.com/argoproj/argo-cd/v3 v3.5.0
	github.com/cert-manager/cert-manager v1.21.2
	github.com/fluxcd/helm-controller v1.4.0
	github.com/fluxcd/source-controller v1.9.0
)
