package controllermanager_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
)

// A tenant can send a pod template of 3 MiB. Its check must not need much memory, because other tenants share it. TestLimitOfParts has templates of many
// parts.
func TestLargeArgumentsNeedLittle(t *testing.T) {
	const mostMemory = 128 << 20
	spec := pod().PodSpec
	spec.Containers[0].Args = []string{strings.Repeat("$a", 400_000), strings.Repeat("$(", 400_000)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := reasonsOf(t, spec)
	runtime.ReadMemStats(&after)
	if needed := after.TotalAlloc - before.TotalAlloc; needed > mostMemory {
		t.Errorf("the check needs %d MiB, more than %d", needed>>20, mostMemory>>20)
	}
	if !slices.Equal(got, []string{"FlagNotAllowed"}) {
		t.Errorf("problems %q, want only FlagNotAllowed", got)
	}
}

// reasonsOf returns the reasons of the problems of a pod template.
func reasonsOf(t *testing.T, spec corev1.PodSpec) []string {
	t.Helper()
	o := objects{t: t, account: metal.Account, keys: []string{"oauth-url", "client-id", "client-secret"}, found: true}
	result, err := controllermanager.Check(t.Context(), v1beta1.ControllerManager{ClusterNameLabel: label, SecretName: secret, Container: "ccm"}, o,
		controllermanager.Workload{Namespace: "ns", Name: "manager", Labels: map[string]string{label: "metal"}, Pod: spec})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, problem := range result.Problems {
		reasons = append(reasons, problem.Reason)
	}
	return reasons
}
