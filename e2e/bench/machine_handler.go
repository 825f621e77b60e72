package main

import (
	"context"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

const (
	gateThroughputRatioBound = 0.7

	// hitMachines is the number of instances that each caller names in turn, so that all verdicts but the first come from the cache.
	hitMachines = 64
)

// measureMachineHandler compares the gate on machines with a no-op handler. The verdicts are in the cache.
func measureMachineHandler(ctx context.Context, out *figures, logFile string) error {
	measured, err := compare(ctx, contestant{name: "gate", path: machinePath, reviews: hitReviews}, logFile)
	if err != nil {
		return err
	}
	out.atLeast("gate_throughput_ratio", measured.throughputRatio(), "ratio", gateThroughputRatioBound)
	return nil
}

// hitReviews are reviews of few machines that repeat.
func hitReviews(caller int) (*reviews, error) {
	reviews, err := machineReviews("team", caller)
	if err != nil {
		return nil, err
	}
	reviews.cycle = hitMachines
	return reviews, nil
}

// newMachineGate returns a gate for machines of one user, who owns every instance.
func newMachineGate(config v1beta1.GateConfiguration) (gate webhooks.Gate, stop func(), err error) {
	owners, err := ownership.NewGate(map[string]ownership.Cloud{oneUser.Cloud: generous{}},
		map[string]int32{oneUser.Cloud: config.CloudSigma.Concurrency})
	if err != nil {
		return nil, nil, err
	}
	kinds := make([]clusterapi.Kind, 0, 1)
	for _, kind := range config.MachineKinds() {
		kinds = append(kinds, clusterapi.Kind{
			MachineKind: kind, ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: cloudsigma.ProviderIDs.Parse,
		})
	}
	return machine.New(config.Machine, kinds, objectsOfOne{}, owners), owners.Close, nil
}

var oneUser = ownership.Account{Cloud: string(v1beta1.ProviderCloudSigma), User: "user@example.com", Region: "next"}

// objectsOfOne has one user for all clusters, and no other machine.
type objectsOfOne struct{}

func (objectsOfOne) Account(context.Context, clusterapi.Cluster) (ownership.Account, error) {
	return oneUser, nil
}

func (objectsOfOne) Holder(
	context.Context, string, clusterapi.Machine, func(clusterapi.Machine) bool,
) (*clusterapi.Machine, error) {
	return nil, nil
}

func (objectsOfOne) Owner(context.Context, clusterapi.Machine) (*clusterapi.Owner, error) {
	return nil, nil
}

func (objectsOfOne) Owned(context.Context, string, string) ([]clusterapi.Machine, error) {
	return nil, nil
}

// generous is a cloud in which users own every instance that they claim.
type generous struct{ ownership.Cloud }

// Ask implements ownership.Cloud.
func (generous) Ask(context.Context, ownership.Claim) (ownership.Answer, error) {
	return ownership.Answer{Verdict: ownership.Owned, UserID: "2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12", Response: "200"}, nil
}
