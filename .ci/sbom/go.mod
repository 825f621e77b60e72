// Makes the software bills of material of a release: .ci/goreleaser.yaml runs it.
module warrantgate.dev/sbom

go 1.26.0

require github.com/spdx/tools-golang v0.5.7

require github.com/anchore/go-struct-converter v0.1.0 // indirect
