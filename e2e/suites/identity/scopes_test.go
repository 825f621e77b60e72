//go:build e2e

// Package identity_test compares the owner rewrite with kcp's own rules of scopes and warrants.
package identity_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

// third is a logical cluster that is neither the origin nor a scope of any generated owner.
const third logicalcluster.Name = "tttttttt"

type question struct {
	Cluster               logicalcluster.Name `json:"cluster"`
	User                  identity.Owner      `json:"user"`
	GlobalServiceAccounts bool                `json:"globalServiceAccounts"`
}

type answer struct {
	Effective []identity.Owner `json:"effective"`
	Groups    []string         `json:"groups"`
}

// TestRewriteGainsNothingElsewhere: in every logical cluster except the new one, the new owner has the permissions of the creator without what
// was dropped, and at most the group of the new logical cluster in addition. kcp's own code evaluates the effective users.
func TestRewriteGainsNothingElsewhere(t *testing.T) {
	ask := startOracle(t)
	effective := func(owner identity.Owner, cluster logicalcluster.Name, global bool) []identity.Owner {
		return ask(question{cluster, owner, global}).Effective
	}
	var users, tokens, impersonated int
	for tc := range identitytest.Cases(3, 4_000) {
		raw, report := tc.Rewrite()
		switch {
		case !report.Reason.Rewritten():
			continue
		case tc.Impersonated():
			impersonated++
		case report.Reason == identity.UserRewritten:
			users++
		default:
			tokens++
		}
		result, err := identity.ParseOwner(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, cluster := range append(slices.Clone(identitytest.Clusters), third) {
			for _, global := range []bool{true, false} {
				if err := tc.CheckElsewhere(result, cluster, global, effective); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("rewritten: %d users, %d service accounts with a home, %d impersonated service accounts", users, tokens, impersonated)
	if min(users, tokens, impersonated) < 200 {
		t.Error("the generator tests too little")
	}
}

// TestRewriteWorksInTheNewCluster: in the new cluster, the new owner is an effective user, has the required groups if these can be
// added, and is never an administrator.
func TestRewriteWorksInTheNewCluster(t *testing.T) {
	ask := startOracle(t)
	for tc := range identitytest.Cases(4, 3_000) {
		raw, report := tc.Rewrite()
		if !report.Reason.Rewritten() {
			continue
		}
		result, err := identity.ParseOwner(raw)
		if err != nil {
			t.Fatal(err)
		}
		there := ask(question{identitytest.NewCluster, result, true})
		if !slices.ContainsFunc(there.Effective, func(u identity.Owner) bool { return u.Username == result.Username }) {
			t.Fatalf("kcp does not count %s as %s", raw, result.Username)
		}
		for _, group := range there.Groups {
			if group == "system:masters" || strings.HasPrefix(group, "system:kcp:") {
				t.Fatalf("%s counts as a member of %s", raw, group)
			}
		}
		for _, group := range report.RequiredGroups {
			if !slices.Contains(there.Groups, group) {
				t.Fatalf("%s is not a member of %s, which the workspace requires", raw, group)
			}
		}
	}
}

// TestInScopeAgreesWithKCP compares InScope, on which the rewrite depends, with kcp's own function.
func TestInScopeAgreesWithKCP(t *testing.T) {
	ask := startOracle(t)
	for tc := range identitytest.Cases(5, 3_000) {
		owner := tc.Owner
		owner.UID = "the owner itself" // to distinguish it from its warrants
		for _, cluster := range append(slices.Clone(identitytest.Clusters), third) {
			want := slices.ContainsFunc(ask(question{cluster, owner, false}).Effective, func(u identity.Owner) bool { return u.UID == owner.UID })
			if got := owner.InScope(cluster); got != want {
				t.Fatalf("InScope(%s) = %t, kcp says %t of %s", cluster, got, want, owner)
			}
		}
	}
}

// startOracle starts the program that runs kcp's own code.
func startOracle(t *testing.T) func(question) answer {
	t.Helper()
	path, err := asset.Path(asset.EffectiveUsers)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // killed by the context of the test, if it is still running
	})
	encoder, answers := json.NewEncoder(in), bufio.NewReader(out)
	return func(q question) answer {
		t.Helper()
		if err := encoder.Encode(q); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}
