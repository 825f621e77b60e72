package clusterapi

// NewObjectsOf is NewObjects with clients in place of a configuration.
var NewObjectsOf = newObjects

// Essentials are what is kept of a machine.
func (k Kind) Essentials(object any) (any, error) { return k.essentials(object) }

// EssentialsOfCluster are what is kept of a cluster.
var EssentialsOfCluster = essentialsOfCluster
