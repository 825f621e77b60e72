package machine

import (
	"cmp"
	"fmt"
	"slices"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// change is the change of a machine's claim by a request. A claim is the instance, the cluster, and the identity that the provider acts
// as.
type change struct {
	machine clusterapi.Machine
	// instanceID and providerID are true if the field gets a new value that is not empty.
	instanceID, providerID bool
	// cluster, identity and owner are true if the machine names an instance after the request and gets another label
	// cluster.x-k8s.io/cluster-name, another identityRef, or another Machine of Cluster API as owner. Removing the owner is not a
	// change: without an owner, no provider acts.
	cluster, identity, owner bool
	// exists is false if the request creates the machine.
	exists bool
	// first is true if the machine exists, names an instance after the request, and named none before.
	first bool
}

func newChange(machine, old clusterapi.Machine, exists bool) change {
	c := change{machine: machine, exists: exists}
	if machine.InstanceID == "" && machine.ProviderID == "" {
		return c
	}
	c.instanceID = machine.InstanceID != "" && machine.InstanceID != old.InstanceID
	c.providerID = machine.ProviderID != "" && machine.ProviderID != old.ProviderID
	c.cluster = machine.ClusterName() != old.ClusterName()
	c.identity = machine.Identity != old.Identity
	owners := machine.Owners()
	c.owner = len(owners) > 0 && !slices.Equal(owners, old.Owners())
	// Without a UID, the old object could not be decoded, and the instance that it named is not known.
	c.first = exists && old.UID != "" && old.InstanceID == "" && old.ProviderID == ""
	return c
}

// claims is true if the request changes a part of the claim. Clearing a field never does.
func (c change) claims() bool { return c.names() || c.moves() }

// names is true if the request names another instance.
func (c change) names() bool { return c.instanceID || c.providerID }

// moves is true if the request changes the cluster, identity or owner of a machine that names an instance.
func (c change) moves() bool { return c.cluster || c.identity || c.owner }

// id returns the instance that is named, or a denial if the fields are malformed or name different instances.
func (c change) id() (string, *webhooks.Answer) {
	kind := c.machine.Kind
	fromInstance, instanceErr := parse(kind.ParseInstanceID, c.machine.InstanceID)
	fromProvider, providerErr := parse(kind.ParseProviderID, c.machine.ProviderID)
	switch {
	// An unchanged field may be malformed, as long as the cluster and the identity stay the same.
	case (c.instanceID || c.moves()) && instanceErr != nil:
		return "", invalidf(ownership.ReasonInvalid, "%v", instanceErr)
	case (c.providerID || c.moves()) && providerErr != nil:
		return "", invalidf(reasonProviderID, "%v", providerErr)
	// It must not name another instance than the changed field.
	case c.machine.InstanceID != "" && c.machine.ProviderID != "" && fromInstance != fromProvider:
		return "", invalidf(ownership.ReasonMismatch, "%s %q and %s %q"+differentInstances,
			kind.ProviderIDPath, message.Value(c.machine.ProviderID), kind.InstanceIDPath, message.Value(c.machine.InstanceID))
	case fromInstance != "":
		return fromInstance, nil
	}
	return fromProvider, nil
}

// differentInstances continues the message about two fields.
const differentInstances = " do not name the same instance; clear the wrong one first"

func parse(parser func(string) (string, error), value string) (string, error) {
	if value == "" {
		return "", nil
	}
	return parser(value)
}

// subject returns the name of the subject of an answer with this reason, and the path of its field.
func (c change) subject(reason string) (name, path string) {
	if !c.names() && c.moves() {
		change, path := c.move()
		return fmt.Sprintf("%s of %s, which names instance %q", change, c.machine, message.Value(cmp.Or(c.machine.InstanceID, c.machine.ProviderID))), path
	}
	path, value := c.machine.Kind.ProviderIDPath, c.machine.ProviderID
	if c.instanceID && reason != reasonProviderID {
		path, value = c.machine.Kind.InstanceIDPath, c.machine.InstanceID
	}
	return fmt.Sprintf("%s %q of %s", path, message.Value(value), c.machine), path
}

// move returns the name and the path of the part of the claim, other than the instance, that the request changes.
func (c change) move() (change, path string) {
	switch {
	case c.cluster && c.machine.ClusterName() == "":
		return "removal of label " + clusterapi.ClusterNameLabel, clusterLabelPath
	case c.cluster:
		return fmt.Sprintf("label %s %q", clusterapi.ClusterNameLabel, message.Value(c.machine.ClusterName())), clusterLabelPath
	case c.identity:
		return "change of " + c.machine.Kind.IdentityRefPath, c.machine.Kind.IdentityRefPath
	}
	return "change of " + ownersPath, ownersPath
}

// Paths of metadata.
const (
	clusterLabelPath = "metadata.labels[" + clusterapi.ClusterNameLabel + "]"
	ownersPath       = "metadata.ownerReferences"
)

// instead says what to do instead of a claim that is denied.
func (c change) instead() string {
	if c.names() || !c.moves() {
		return "clear the field, so that the provider adopts an instance of the user or creates one"
	}
	_, path := c.move()
	return fmt.Sprintf("leave %s as it is, or clear %s and %s first", path, c.machine.Kind.InstanceIDPath, c.machine.Kind.ProviderIDPath)
}
