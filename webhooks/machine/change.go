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

// change is what a request does to the claim of a machine: which instance it names, of which cluster it is, and which identity
// its provider acts as.
type change struct {
	machine clusterapi.Machine
	// instanceID and providerID are true where the field gets another value than it had, and one at all.
	instanceID, providerID bool
	// cluster, identity and owner are true where the machine names an instance after the request, and gets another label
	// cluster.x-k8s.io/cluster-name, another identityRef, or is owned by another Machine of Cluster API. To be owned by none is no
	// change: as long as there is none, no provider acts.
	cluster, identity, owner bool
	// exists is false where the request is to create the machine.
	exists bool
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
	return c
}

// claims is true where the request changes a part of the claim. To clear a field never does.
func (c change) claims() bool { return c.names() || c.moves() }

// names is true where the request names an instance anew.
func (c change) names() bool { return c.instanceID || c.providerID }

// moves is true where the request changes for whom the machine names its instance.
func (c change) moves() bool { return c.cluster || c.identity || c.owner }

// id returns the instance that is named, or why it cannot be told which.
func (c change) id() (string, *webhooks.Answer) {
	kind := c.machine.Kind
	fromInstance, instanceErr := parse(kind.ParseInstanceID, c.machine.InstanceID)
	fromProvider, providerErr := parse(kind.ParseProviderID, c.machine.ProviderID)
	switch {
	// What is not changed may hold anything, as long as it is for the same cluster and identity.
	case (c.instanceID || c.moves()) && instanceErr != nil:
		return "", invalidf(ownership.ReasonInvalid, "%v", instanceErr)
	case (c.providerID || c.moves()) && providerErr != nil:
		return "", invalidf(reasonProviderID, "%v", providerErr)
	// Nor may it hold something else than the one that is changed.
	case c.machine.InstanceID != "" && c.machine.ProviderID != "" && fromInstance != fromProvider:
		return "", invalidf(ownership.ReasonMismatch, "%s %q and %s %q do not name the same instance; clear the wrong one first",
			kind.ProviderIDPath, message.Value(c.machine.ProviderID), kind.InstanceIDPath, message.Value(c.machine.InstanceID))
	case fromInstance != "":
		return fromInstance, nil
	}
	return fromProvider, nil
}

func parse(parser func(string) (string, error), value string) (string, error) {
	if value == "" {
		return "", nil
	}
	return parser(value)
}

// subject returns what an answer with this reason is about, and the path of that field.
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

// move says which other part of the claim is changed than the instance, and the path of that field.
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

// instead says what to do in place of a claim that is refused.
func (c change) instead() string {
	if c.names() || !c.moves() {
		return "clear the field, so that the provider adopts an instance of the user or makes one"
	}
	_, path := c.move()
	return fmt.Sprintf("leave %s as it is, or clear %s and %s first", path, c.machine.Kind.InstanceIDPath, c.machine.Kind.ProviderIDPath)
}
