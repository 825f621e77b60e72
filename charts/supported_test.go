package charts_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The place of the table of tested versions in the README.
const (
	supportedBegin = "<!-- Generated from .ci/run, .ci/schemas.mod, e2e/servers and Chart.yaml by \"go test ./charts -run Supported -update\". -->\n"
	supportedEnd   = "<!-- End of the generated table. -->\n"
)

// matrixLine is a line of .ci/run that runs suites: with the kcp, if it names one, and the suites, if not all.
var matrixLine = regexp.MustCompile(`(?m)^\t(?:TEST_ASSET_KCP="\$servers/([^/"]+)/kcp" )?make (?:test|e2e SUITES="([^"]+)")(?: .*)?$`)

// TestTheSupportedVersionsAreThoseOfTheMatrix checks that the README lists exactly the versions on which CI runs.
func TestTheSupportedVersionsAreThoseOfTheMatrix(t *testing.T) {
	before, rest, begins := strings.Cut(readFile(t, "../README.md"), supportedBegin)
	got, after, ends := strings.Cut(rest, supportedEnd)
	if !begins || !ends {
		t.Fatal("README.md has no generated table of versions")
	}
	want := "| | Version | Tested by |\n|---|---|---|\n" + testedKCP(t) + testedKubernetes(t) +
		"| Chart | " + only(t, "warrantgate/Chart.yaml", `(?m)^version: (.*)$`) + " | Kubernetes " + only(t, "warrantgate/Chart.yaml", `(?m)^kubeVersion: ">=(.*)\.0-0"$`) + " and later can install it |\n"
	if *update {
		if err := os.WriteFile("../README.md", []byte(before+supportedBegin+want+supportedEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md is not current: run go test ./charts -run Supported -update (-want +got):\n%s", diff)
	}
}

// TestTheSupportedReleaseIsNamedEverywhere checks that documents and examples name the version of Chart.yaml, the registry of the Makefile, and its
// owner as the signer.
func TestTheSupportedReleaseIsNamedEverywhere(t *testing.T) {
	version := only(t, "warrantgate/Chart.yaml", `(?m)^version: (.*)$`)
	registry := only(t, "../Makefile", `(?m)^REGISTRY +\?= (.*)$`)
	_, owner, _ := strings.Cut(registry, "/")
	chart := "oci://" + registry + "/charts/warrantgate"
	signer := `/` + owner + `/warrantgate/.github/workflows/release.yaml@refs/tags/v` + version + "$"
	for _, tc := range []struct{ file, expression, want string }{
		{"warrantgate/README.md", `(?m)^owner=(\S+) version=`, owner},
		{"warrantgate/README.md", `(?m)^owner=\S+ version=(\S+) `, version},
		{"warrantgate/README.md", `(?m)^owner=.* registry=(\S+)$`, registry},
		{"warrantgate/examples/gitops/argocd.yaml", `(?m)^ +repoURL: (.*)$`, registry + "/charts"},
		{"warrantgate/examples/gitops/argocd.yaml", `(?m)^ +targetRevision: (.*)$`, version},
		{"warrantgate/examples/gitops/flux.yaml", `(?m)^ +url: (.*)$`, chart},
		{"warrantgate/examples/gitops/flux.yaml", `(?m)^ +ref: {tag: (.*)}$`, version},
		{"warrantgate/examples/gitops/flux.yaml", `(?m)^ +subject: \^https://github\\\.com(.*)$`, strings.ReplaceAll(signer, ".", `\.`)},
	} {
		if *update {
			rewrite(t, tc.file, tc.expression, tc.want)
		}
		if got := only(t, tc.file, tc.expression); got != tc.want {
			t.Errorf("%s has %q, want %q: run go test ./charts -run Supported -update", tc.file, got, tc.want)
		}
	}
}

// rewrite replaces the group of the only match of an expression in a file.
func rewrite(t *testing.T, file, expression, group string) {
	t.Helper()
	content := readFile(t, file)
	only(t, file, expression)
	at := regexp.MustCompile(expression).FindStringSubmatchIndex(content)
	if err := os.WriteFile(file, []byte(content[:at[2]]+group+content[at[3]:]), 0o600); err != nil {
		t.Fatal(err)
	}
}

func testedKCP(t *testing.T) string {
	t.Helper()
	script, _, found := strings.Cut(readFile(t, "../.ci/run"), "\nelse\n")
	if !found {
		t.Fatal(".ci/run has no matrix")
	}
	var rows string
	for _, line := range matrixLine.FindAllStringSubmatch(script, -1) {
		version, suites := line[1], "all suites"
		switch version {
		case "":
			version = only(t, "../e2e/servers/kcp/go.mod", `(?m)^require github.com/kcp-dev/kcp (v\S+)`)
		case "next":
			version = "main branch"
		}
		if line[2] != "" {
			suites = "suites " + strings.Join(strings.Fields(line[2]), ", ")
		}
		rows += "| kcp | " + version + " | " + suites + " |\n"
	}
	if strings.Count(rows, "\n") < 3 {
		t.Fatalf(".ci/run names these only:\n%s", rows)
	}
	return rows
}

func testedKubernetes(t *testing.T) string {
	t.Helper()
	var schemas []string
	for _, line := range regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes-([0-9.]+) v`).FindAllStringSubmatch(readFile(t, "../.ci/schemas.mod"), -1) {
		schemas = append(schemas, line[1])
	}
	if diff := cmp.Diff(minors, schemas); diff != "" {
		t.Errorf("schemas (-those of the tests +those of .ci/schemas.mod):\n%s", diff)
	}
	return "| Kubernetes | " + only(t, "../e2e/servers/kubernetes/go.mod", `(?m)^require k8s\.io/kubernetes (v\S+)`) + " | all suites |\n" +
		"| Kubernetes | " + strings.Join(schemas, ", ") + " | objects of the chart, against the OpenAPI schemas |\n"
}

// only returns the match of an expression with a group in a file. The match has to be the only one.
func only(t *testing.T, file, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(readFile(t, file), -1)
	if len(found) != 1 {
		t.Fatalf("%s: %d matches of %s, want 1", file, len(found), expression)
	}
	return found[0][1]
}
