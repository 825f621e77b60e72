# Versions and paths. Each may be set on the command line or in the environment.
GO               ?= go
VERSION          ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION         ?= $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null)
E2E_TIMEOUT      ?= 40m
FUZZTIME         ?= 60s
# Number of random writes of "make fuzz" on a kube-apiserver. On kcp it sends a tenth of them.
WRITES           ?= 50000
SOAK             ?= 1h
# Admissions per second in the suites that put replicas under load.
RATE             ?= 20
# The release from which the upgrade is tested, as a tag or another name of a commit. Default: the last before this commit. Without a
# release or git, the upgrade is tested from these sources under another version.
BEFORE           ?= $(shell git describe --tags --match 'v[0-9]*' --abbrev=0 HEAD^ 2>/dev/null)
# More arguments for "go test" of the end-to-end suites, such as E2E_ARGS=-v. Those of Ginkgo need SUITES, because other packages do not know them.
E2E_ARGS         ?=
# The suites that "make e2e" runs, such as SUITES="workspace install"; all if empty.
SUITES           ?=
# The measurements that "make bench" runs, such as BENCH=start,serve; all if empty.
BENCH            ?=
# The number of suites that run at the same time. Four keep two cores busy: many specs wait.
E2E_PARALLEL     ?= 4
# The tests, the demos and the benchmarks have the flags of BUILD, so that the packages which they share with the program are compiled once. Without C, the go
# command links tests itself, which takes half of the time.
GO_TEST          := env CGO_ENABLED=0 $(GO) test -trimpath
GO_RUN           := env CGO_ENABLED=0 $(GO) run -trimpath
# The race detector needs a C compiler; without one the tests run without it.
RACE_FLAG        := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

BIN                := $(CURDIR)/bin
SERVERS_KCP        := e2e/servers/kcp
SERVERS_KUBERNETES := e2e/servers/kubernetes
SERVERS_PROMETHEUS := e2e/servers/prometheus
TOOLS_MOD          := .ci/tools.mod
HELM_MOD           := .ci/helm.mod
GOVULNCHECK_MOD    := .ci/govulncheck.mod
GREMLINS_MOD       := .ci/gremlins.mod
KUBECONFORM_MOD    := .ci/kubeconform.mod
REFDOCS_MOD        := .ci/refdocs.mod
SCHEMAS_MOD        := .ci/schemas.mod
CRDS_MOD           := .ci/crds.mod
GORELEASER_MOD     := .ci/goreleaser.mod
COSIGN_MOD         := .ci/cosign.mod
ACTIONLINT_MOD     := .ci/actionlint.mod
# Writes documents from the types of the configuration file.
REFERENCE          := bin/crd-ref-docs --source-path=internal/config/v1beta1 --config=.ci/refdocs/config.yaml --renderer=markdown --log-level=ERROR

# Finds the servers, builds what is missing, and runs a command on them: $(SERVERS) kcp etcd -- COMMAND. Each is the one in TEST_ASSET_KCP,
# TEST_ASSET_KCP_FRONT_PROXY, TEST_ASSET_CACHE_SERVER, TEST_ASSET_KUBE_APISERVER, TEST_ASSET_ETCD or TEST_ASSET_PROMETHEUS, else the one in
# PATH, else the version that e2e/servers/*/go.mod pins. TEST_SERVERS=modules does not look into PATH.
SERVERS          := GO=$(GO) $(GO) run ./e2e/servers
KUBERNETES       := kube-apiserver etcd
# Says that a silent command is still at work.
HEARTBEAT        := .ci/heartbeat
TOOL             = $(HEARTBEAT) "building $@" $(GO) build

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The go command runs in parallel itself, and two concurrent suites would disturb each other.
.NOTPARALLEL:

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# The same sources produce the same binary in every directory, with and without git: it contains no paths and no date, and the revision
# is set here. goreleaser uses the same flags.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)"

.PHONY: build
build: ## Build bin/warrantgate
	@$(HEARTBEAT) "building warrantgate, which takes 4 minutes with empty caches" env $(BUILD) -o bin/warrantgate ./cmd/warrantgate

# The files that "make generate" writes, below GENERATE_TO.
GENERATED := charts/warrantgate/files/kcp-policies.yaml charts/warrantgate/files/kubernetes-policies.yaml charts/warrantgate/values.schema.json \
	internal/config/v1beta1/README.md
GENERATE_TO ?= .
# The chart leaves out the policies of gates that are off.
WITH_OPENSTACK := {"apiVersion": "config.warrantgate.dev/v1beta1", "kind": "GateConfiguration", "openStack": {"authURLs": ["https://keystone.example.com/v3"]}}
.PHONY: generate
generate: build bin/crd-ref-docs ## Write the admission policies of the chart, and schema and reference of the configuration file
	@mkdir -p $(addprefix $(GENERATE_TO)/,$(dir $(GENERATED)))
	bin/warrantgate install kcp --policies-only --dry-run > $(GENERATE_TO)/charts/warrantgate/files/kcp-policies.yaml
	echo '$(WITH_OPENSTACK)' | bin/warrantgate install kubernetes --policies-only --dry-run --config=/dev/stdin > $(GENERATE_TO)/charts/warrantgate/files/kubernetes-policies.yaml
	$(REFERENCE) --templates-dir=.ci/refdocs --output-path=$(GENERATE_TO)/internal/config/v1beta1/README.md
	values=$$(sed '/^  "definitions"/,$$d' charts/warrantgate/values.schema.json) && \
	types=$$($(REFERENCE) --templates-dir=.ci/refdocs/schema --output-path=/dev/stdout) && \
	printf '%s\n' "$$values" "$$types" > $(GENERATE_TO)/charts/warrantgate/values.schema.json

# It compares with files in another directory, so that changes that are not committed yet pass, too.
.PHONY: verify
verify: ## Check that the files that "make generate" writes are current
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(MAKE) --no-print-directory generate GENERATE_TO="$$dir" && stale= && \
	for file in $(GENERATED); do diff -u "$$file" "$$dir/$$file" || stale="$$stale $$file"; done; \
	[ -z "$$stale" ] || { echo "stale:$$stale; run: make generate" >&2; exit 1; }

# The sources of that release with their binaries, because the upgrade also uses its chart.
.PHONY: before
before: ## Build bin/before/bin/warrantgate, the release that an upgrade is tried from
	@rm -rf bin/before && mkdir -p bin/before
	@if [ -n "$(BEFORE)" ]; then git archive "$(BEFORE)" | tar -x -C bin/before; \
	else cp -r Makefile go.mod go.sum .ci charts cmd initializers internal webhooks bin/before; fi
	@$(MAKE) --no-print-directory -C bin/before build VERSION=$(or $(BEFORE),$(VERSION)-before) REVISION=

.PHONY: demo
demo: build ## Show what warrantgate does on kcp, on a kcp of its own
	@$(SERVERS) kcp -- $(GO_RUN) ./e2e/demo kcp

.PHONY: pictures
pictures: build ## Write the pictures of "make demo" and of the dashboard
	@$(SERVERS) kcp -- $(GO_RUN) ./e2e/demo kcp e2e/demo/kcp.svg
	@DASHBOARD_PICTURE=$(CURDIR)/charts/dashboard.svg $(SERVERS) kcp $(KUBERNETES) prometheus -- \
		$(GO_TEST) $(E2E_FLAGS) ./e2e/suites/stories -ginkgo.focus=dashboard

.PHONY: demo-machines
demo-machines: build ## Show what warrantgate does for Cluster API on CloudSigma
	@$(SERVERS) $(KUBERNETES) -- $(GO_RUN) ./e2e/demo machines

.PHONY: demo-openstack
demo-openstack: build ## Show what warrantgate does for Cluster API on OpenStack
	@$(SERVERS) $(KUBERNETES) -- $(GO_RUN) ./e2e/demo openstack

.PHONY: test
test: unit stories ## Run the unit tests and the main stories of all gates, before each change

# These send a thousand large requests, or compare a policy with a gate on tens of thousands of objects: minutes each. Smaller tests of the
# same packages run the same code.
LARGE := TestAThousandLargeBodies|TestPolicyAgreesWithRewrite|TestPolicyAgreesWithTheGate
.PHONY: unit
unit: bin/helm bin/kubeconform bin/schemas ## Run the tests that need no server, those of the chart and of the suites' helpers among them
	$(HEARTBEAT) "unit tests" $(GO_TEST) -timeout 20m -skip '^($(LARGE))$$' ./...

# The packages in whose code goroutines share something.
GOROUTINES = $$(grep -rlE '(^|[[:space:]])go (func|[a-zA-Z.]+)\(|sync\.|atomic\.|errgroup|singleflight' --include='*.go' --exclude='*_test.go' \
	cmd internal initializers webhooks | xargs -n1 dirname | sort -u | sed 's|^|./|')
.PHONY: race
race: ## Run the tests of the packages with goroutines under the race detector
	$(HEARTBEAT) "unit tests with the race detector" $(GO) test $(RACE_FLAG) -timeout 20m -skip '^($(LARGE))$$' $(GOROUTINES)

# -count=1 because a cached result does not cover binaries that were built later. "make lint" vets the suites, and nobody debugs their binaries.
E2E_FLAGS = -tags e2e -count=1 -vet=off -ldflags=-w -timeout $(E2E_TIMEOUT)
# Without the specs for which Prometheus would have to be built.
.PHONY: stories
stories: build ## Run the main stories of all gates on a kcp and a kube-apiserver
	@$(SERVERS) kcp $(KUBERNETES) -- $(HEARTBEAT) "suite stories" $(GO_TEST) $(E2E_FLAGS) ./e2e/suites/stories -ginkgo.label-filter='!prometheus' $(E2E_ARGS)

# The longest suites come first, in the order of their time, so that none runs alone at the end. The model of attacks is a unit test.
# E2E_ARGS follows the packages: the go command takes what follows a flag that it does not know for arguments of the tests.
LONGEST := machine attacks keystonepolicy chartkcp repair workspace openstack readme sharded install chart replicas policies explain stories provider
.PHONY: e2e
e2e: build $(if $(TEST_ALL),before) openstack browser bin/helm bin/crds ## Run all end-to-end suites on real servers
	@RATE=$(RATE) $(SERVERS) all -- $(HEARTBEAT) "end-to-end suites" $(GO_TEST) $(E2E_FLAGS) -p=$(E2E_PARALLEL) \
		$(addprefix ./e2e/suites/,$(or $(SUITES),$(LONGEST))) $(if $(SUITES),,$$($(GO) list -tags e2e ./e2e/suites/... | grep -vE '/(release|model)$$')) $(E2E_ARGS)

# The suites that run on kcp. "make test-all" runs them a second time, on the kcp of the modules, if the first one was that of PATH.
KCP_SUITES = $(sort $(notdir $(shell grep -rl --include='*.go' '"warrantgate.dev/e2e/env/kcptest"' e2e/suites | xargs -n1 dirname)))

.PHONY: test-all
test-all: bin/helm bin/kubeconform bin/schemas ## Run everything: race detector, thousands of objects, load, upgrades, each kcp; takes hours
	$(HEARTBEAT) "all unit tests with the race detector" $(GO) test $(RACE_FLAG) -timeout 60m -skip '^($(LARGE))$$' ./...
	$(HEARTBEAT) "the largest unit tests" $(GO) test -p 1 -timeout 20m -run '^($(LARGE))$$' ./cmd/warrantgate/serve ./webhooks/cluster ./webhooks/workspace
	$(MAKE) e2e TEST_ALL=1 E2E_TIMEOUT=3h E2E_PARALLEL=1
	$(if $(shell command -v kcp || true),$(MAKE) e2e TEST_ALL=1 E2E_TIMEOUT=3h E2E_PARALLEL=1 TEST_SERVERS=modules SUITES="$(KCP_SUITES)")

.PHONY: lint
lint: bin/golangci-lint bin/govulncheck bin/actionlint verify reproducible ## Check style, imports, generated files, that the modules are tidy, and what is linked
	@$(HEARTBEAT) "golangci-lint" bin/golangci-lint run ./...
	cd $(SERVERS_KCP) && $(GO) vet -mod=readonly ./kcp-effective-users
	cd $(SERVERS_KUBERNETES) && $(GO) list -mod=readonly -deps k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/server/v3 >/dev/null
	cd $(SERVERS_PROMETHEUS) && $(GO) list -mod=readonly -tags=remove_all_sd -deps github.com/prometheus/prometheus/cmd/prometheus >/dev/null
	cd .ci/sbom && $(GO) vet -mod=readonly . && $(GO) test -mod=readonly .
	cd .ci/oci && $(GO) vet -mod=readonly . && $(GO) test -mod=readonly .
	cd .ci/mutants && $(GO) vet -mod=readonly . && $(GO) test -mod=readonly .
	bin/actionlint -shellcheck= -pyflakes=
	.ci/pinned-test
	.ci/image-test
	.ci/kcp-test
	.ci/pinned .github/workflows
	$(GO) mod tidy -diff
	.ci/govulncheck-test
	.ci/govulncheck ./...

# With GOCACHE=/an/empty/directory, everything is compiled again, which takes minutes. Otherwise it is only linked again.
.PHONY: reproducible
reproducible: build ## Check that the sources make the same binary in another directory, without git
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp -r go.mod go.sum cmd initializers internal webhooks "$$dir" && \
	(cd "$$dir" && $(BUILD) -o again ./cmd/warrantgate) && cmp bin/warrantgate "$$dir/again"

.PHONY: bench
bench: build ## Measure what warrantgate costs, on servers of its own
	@$(SERVERS) kcp $(KUBERNETES) -- $(GO_RUN) ./e2e/bench $(BENCH)

.PHONY: soak
soak: build bin/helm ## Watch memory, goroutines and descriptors for SOAK while admissions run
	@TEST_ALL=1 SOAK=$(SOAK) RATE=$(RATE) $(SERVERS) $(KUBERNETES) -- $(GO) test -tags e2e -count=1 -timeout 0 ./e2e/suites/replicas -ginkgo.focus='A soak' -ginkgo.timeout=48h -ginkgo.v

# The seed of the random writes is printed. SEED=... repeats the same sequences.
.PHONY: fuzz
fuzz: build ## Run each fuzz target for FUZZTIME, and WRITES random writes against the gates
	@grep -rso --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd internal initializers webhooks | \
	sed 's|/[^/]*:func | |' | sort | while read -r dir target; do \
		echo "$$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzzminimizetime 10x -fuzztime $(FUZZTIME) "./$$dir" || exit 1; \
	done
	WRITES=$(WRITES) $(SERVERS) kcp $(KUBERNETES) -- $(GO) test -tags e2e -count=1 -timeout 130m ./e2e/suites/attacks -ginkgo.focus='random sequences of writes' $(E2E_ARGS)

# The packages that make decisions. Each mutant costs one run of its package's tests.
MUTATE ?= internal/identity internal/impersonation internal/controllermanager internal/ownership internal/oslopolicy \
	webhooks webhooks/workspace webhooks/machine webhooks/cluster webhooks/controllermanager webhooks/keystone
.PHONY: mutate
mutate: bin/gremlins ## Change the packages MUTATE in small ways, and fail where no test notices it
	GO=$(GO) .ci/mutate bin/gremlins $(MUTATE)

# The real Keystone, with its oslo.policy, and the real Nova are packages of the distribution, and only "make e2e" installs them. If they
# cannot be installed, their suites fail with the names of the packages.
PYTHON ?= $(or $(strip $(TEST_ASSET_PYTHON)),/usr/bin/python3)
OPENSTACK := python3-oslo.policy python3-keystone python3-nova
.PHONY: openstack
openstack:
	@$(PYTHON) -c 'from importlib import util; import sys; sys.exit(not all(map(util.find_spec, ["oslo_policy", "keystone", "nova"])))' || \
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(OPENSTACK); } || \
	echo "make: there is no Keystone or no Nova, on which end-to-end suites run: install $(OPENSTACK)" >&2

# The browser that opens the page of "warrantgate audit -o html".
.PHONY: browser
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } || \
	echo "make: there is no browser, in which an end-to-end suite opens a page: install chromium" >&2

.PHONY: servers
servers: ## Find the servers that the end-to-end suites run on, and build those that are missing
	@$(SERVERS) all

# From a tag, goreleaser builds a release; from any other commit a snapshot, with the next version. The chart contains the registry of
# the images, so the registry must be set before. A commit with several tags is released under the one that TAG names.
TAG              := $(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null)
REGISTRY         ?= ghcr.io/warrantgate
REPOSITORY       ?= $(or $(GITHUB_SERVER_URL),https://github.com)/$(or $(GITHUB_REPOSITORY),warrantgate/warrantgate)
BUILDER          ?= $(if $(GITHUB_WORKFLOW_REF),$(GITHUB_SERVER_URL)/$(GITHUB_WORKFLOW_REF),local)
# goreleaser reads the URL of a git remote, which a clone of a clone, or a new repository, does not have.
GORELEASER       = PATH="$(BIN):$$PATH" GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=$(REPOSITORY) \
	$(if $(TAG),GORELEASER_CURRENT_TAG=$(TAG)) bin/goreleaser release --config=.ci/goreleaser.yaml --clean
RELEASE_TOOLS    := bin/goreleaser bin/sbom bin/oci
SIGNING_TOOLS    := bin/cosign bin/crane
OCI              = SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/oci -registry=$(REGISTRY) -source=$(REPOSITORY) -builder=$(BUILDER) dist && \
	cp charts/warrantgate/files/kcp-policies.yaml dist/

.PHONY: release-snapshot
release-snapshot: $(RELEASE_TOOLS) $(if $(COSIGN_KEY),bin/cosign) ## Write what a release of this commit would publish to dist/
	$(GORELEASER) $(if $(TAG),--skip=publish,--snapshot)$(if $(COSIGN_KEY),, --skip=sign)
	$(OCI)

IMAGE            ?= warrantgate:$(VERSION)
.PHONY: image
image: ## Build the image IMAGE with docker, podman or buildah, else without an engine, and print how to load it into kind and minikube
	@GO='$(GO)' IMAGE='$(IMAGE)' VERSION='$(VERSION)' REVISION='$(REVISION)' .ci/image $(BUILD)

# The workflow "release" runs this target. Nothing is published before everything is built. goreleaser cannot continue a build, so it builds
# a second time to upload the files, and fails before that if a program differs from the one in the published image.
.PHONY: release
release: tagged release-snapshot $(SIGNING_TOOLS) ## Publish the release of a tag: files, image and chart, all signed
	.ci/publish $(REGISTRY)
	rm -rf bin/published && mv dist bin/published
	PUBLISHED=$(BIN)/published $(GORELEASER)
	cd bin/published && cp -r image chart warrantgate-*.tgz kcp-policies.yaml provenance.json published.txt $(CURDIR)/dist

# README, chart and examples name the version of Chart.yaml, so a tag with another version would contradict them.
CHART_TAG         = v$(shell sed -n 's/^version: //p' charts/warrantgate/Chart.yaml)
.PHONY: tagged
tagged:
	@[ -n "$(TAG)" ] || { echo "make release: this commit has no tag such as v0.1.0" >&2; exit 1; }
	@[ "$(TAG)" = "$(CHART_TAG)" ] || { echo "make release: the tag is $(TAG), but charts/warrantgate/Chart.yaml has the version of $(CHART_TAG)" >&2; exit 1; }

# Not a part of "make e2e", because goreleaser and cosign take minutes to build. So do the other platforms: PLATFORMS=all includes them.
.PHONY: e2e-release
e2e-release: $(RELEASE_TOOLS) $(SIGNING_TOOLS) bin/helm ## Make, publish, verify and install a release on this machine
	@$(SERVERS) $(KUBERNETES) -- $(GO_TEST) $(E2E_FLAGS) ./e2e/suites/release $(E2E_ARGS)

.PHONY: clean
clean: ## Remove what was built, but keep the programs of others, which take minutes to build
	rm -rf dist bin/published bin/warrantgate bin/before bin/kcp-effective-users

export TEST_ALL TEST_SERVERS

bin/golangci-lint: $(TOOLS_MOD) $(TOOLS_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(TOOLS_MOD) -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# A separate module file, because it needs another version of Kubernetes than the linters and the product.
bin/helm: $(HELM_MOD) $(HELM_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(HELM_MOD) -o bin/helm helm.sh/helm/v3/cmd/helm

bin/govulncheck: $(GOVULNCHECK_MOD) $(GOVULNCHECK_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(GOVULNCHECK_MOD) -o bin/govulncheck golang.org/x/vuln/cmd/govulncheck

bin/goreleaser: $(GORELEASER_MOD) $(GORELEASER_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(GORELEASER_MOD) -o bin/goreleaser github.com/goreleaser/goreleaser/v2

bin/cosign: $(COSIGN_MOD) $(COSIGN_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(COSIGN_MOD) -o bin/cosign github.com/sigstore/cosign/v3/cmd/cosign

bin/actionlint: $(ACTIONLINT_MOD) $(ACTIONLINT_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(ACTIONLINT_MOD) -o bin/actionlint github.com/rhysd/actionlint/cmd/actionlint

bin/sbom bin/oci: $(wildcard .ci/sbom/*.go .ci/sbom/go.* .ci/oci/*.go .ci/oci/go.*)
	@cd .ci/$(@F) && ../heartbeat "building $@" $(GO) build -mod=readonly -o $(BIN)/$(@F) .

# crane pushes to registries, and serves one for the suite "release".
bin/crane: .ci/oci/go.mod .ci/oci/go.sum
	@cd .ci/oci && ../heartbeat "building $@" $(GO) build -mod=readonly -o $(BIN)/crane github.com/google/go-containerregistry/cmd/crane

bin/gremlins: $(GREMLINS_MOD) $(GREMLINS_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(GREMLINS_MOD) -o bin/gremlins github.com/go-gremlins/gremlins/cmd/gremlins

bin/kubeconform: $(KUBECONFORM_MOD) $(KUBECONFORM_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(KUBECONFORM_MOD) -o bin/kubeconform github.com/yannh/kubeconform/cmd/kubeconform

bin/crd-ref-docs: $(REFDOCS_MOD) $(REFDOCS_MOD:.mod=.sum)
	@$(TOOL) -modfile=$(REFDOCS_MOD) -o bin/crd-ref-docs github.com/elastic/crd-ref-docs

# The schemas with which the tests of the chart compare. A directory with one file for each minor version.
bin/schemas: .ci/schemas $(SCHEMAS_MOD) $(SCHEMAS_MOD:.mod=.sum)
	@$(HEARTBEAT) "copying the schemas of Kubernetes" .ci/schemas $@

# The CRDs with which the tests of the chart's examples for GitOps and cert-manager compare. A directory, too.
bin/crds: .ci/crds $(CRDS_MOD) $(CRDS_MOD:.mod=.sum)
	@$(HEARTBEAT) "copying CRDs" .ci/crds $@
