package clusterapi

import "warrantgate.dev/internal/config/v1beta1"

// NewObjectsOf is NewObjects with clients in place of a configuration.
var NewObjectsOf = newObjects

// Essentials are what is kept of a machine.
func (k Kind) Essentials(object any) (any, error) { return k.essentials(object) }

// EssentialsOfCluster are what is kept of a CloudSigmaCluster.
var EssentialsOfCluster = clusterKinds[v1beta1.ProviderCloudSigma].essentialsOf
