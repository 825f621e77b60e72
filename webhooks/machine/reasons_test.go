package machine_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks/machine"
)

func TestWhatToDo(t *testing.T) {
	for reason, want := range map[string]string{
		ownership.ReasonNotOwned:               "Clear the field. The provider adopts",
		ownership.ReasonNotFound:               "Clear the field. The provider adopts",
		ownership.ReasonConflict:               "Another machine names the server.",
		ownership.ReasonInvalid:                "Write a UUID, or cloudsigma://<uuid>",
		ownership.ReasonMismatch:               "Both fields name different servers.",
		ownership.ReasonWithoutCluster:         "Correct the cluster",
		ownership.ReasonUnknown:                "No answer (503)",
		ownership.RegionNotAllowed:             "Name a region",
		"InstanceDuplicate":                    "A second server was made",
		"InstanceNotNamed":                     "A second server was made",
		"InstanceOrphaned":                     "A server was made for a machine that does not exist.",
		string(clusterapi.ClusterMissing):      "Correct the cluster",
		string(clusterapi.OwnerMachineMissing): "Create the Machine first",
	} {
		if got := machine.WhatToDo(reason); !strings.HasPrefix(got, want) || strings.Contains(got, "`") {
			t.Errorf("%s: %q, want %q…", reason, got, want)
		}
	}
	for _, unknown := range []string{"Unheard", "", "|", "Instance"} {
		if got := machine.WhatToDo(unknown); got != "" {
			t.Errorf("%q: %q", unknown, got)
		}
	}
}
