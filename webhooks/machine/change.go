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
	// instanceID and providerID are true if the field gets a new value that is not empty. A provider ID that names the stored instance ID
	// is not a new one: providers write the instance ID first.
	instanceID, providerID bool
	// cluster, identity and owner are true if the machine names an instance after the request and gets another label
	// cluster.x-k8s.io/cluster-name, another identityRef, or another Machine of Cluster API as owner. Removing the owner is not a
	// change: without an owner, no provider acts.
	cluster, identity, owner bool
	// exists is false if the request creates the machine.
	exists bool
	// first is true if the machine exists and had no instance ID, whatever its provider ID, and the request names an instance and changes
	// nothing else of the claim.
	first bool
}

// claim returns what the cloud is asked about an instance that the machine names.
func (c change) claim(id string, account ownership.Account) ownership.Claim {
	claim := ownership.Claim{Account: account, ID: id, Name: c.machine.Name}
	if c.exists { // no instance can be created for a machine that does not exist, and each attempt to create it has another UID
		claim.MachineUID = string(c.machine.UID)
	}
	return claim
}

func newChange(machine, old clusterapi.Machine, exists bool) change {
	c := change{machine: machine, exists: exists}
	if machine.InstanceID == "" && machine.ProviderID == "" {
		return c
	}
	c.instanceID = machine.InstanceID != "" && machine.InstanceID != old.InstanceID
	c.providerID = machine.ProviderID != "" && machine.ProviderID != old.ProviderID && !namesStored(machine, old)
	if machine.Kind.Provider.IsExternal() { // the ID is the whole claim
		return c
	}
	c.cluster = machine.ClusterName() != old.ClusterName()
	c.identity = machine.Identity != old.Identity
	owners := machine.Owners()
	c.owner = len(owners) > 0 && !slices.Equal(owners, old.Owners())
	// Without a UID, the old object could not be decoded, and the instance that it named is not known.
	c.first = exists && old.UID != "" && old.InstanceID == "" && c.names() && !c.moves()
	return c
}

// claims is true if the request changes a part of the claim. Clearing a field never does.
func (c change) claims() bool { return c.names() || c.moves() }

// names is true if the request names another instance.
func (c change) names() bool { return c.instanceID || c.providerID }

// moves is true if the request changes the cluster, identity or owner of a machine that names an instance.
func (c change) moves() bool { return c.cluster || c.identity || c.owner }

// namesStored reports whether the provider ID of a machine names the instance that the stored machine has in its other field.
func namesStored(machine, old clusterapi.Machine) bool {
	stored, err := machine.Kind.ParseInstanceID(old.InstanceID)
	if err != nil {
		return false
	}
	named, err := machine.Kind.ParseProviderID(machine.ProviderID)
	return err == nil && named == stored
}

// claim is an instance that a change names, with the part of the change that names it.
type claim struct {
	change
	id string
}

// ids returns the instances that have to be checked, or a denial if a field is malformed: those of the fields that change and, if the cluster,
// the identity or the owner changes, those of both. While a provider replaces a server, the two fields name different instances.
func (c change) ids() ([]claim, *webhooks.Answer) {
	kind := c.machine.Kind
	byInstance, byProvider := c, c
	byInstance.providerID, byInstance.machine.ProviderID = false, ""
	byProvider.instanceID, byProvider.machine.InstanceID = false, ""
	var claims []claim
	if byInstance.machine.InstanceID != "" && byInstance.claims() {
		id, err := kind.ParseInstanceID(c.machine.InstanceID)
		if err != nil {
			return nil, invalidf(ownership.ReasonInvalid, "%v", err)
		}
		claims = append(claims, claim{byInstance, id})
	}
	if byProvider.machine.ProviderID != "" && byProvider.claims() {
		id, err := kind.ParseProviderID(c.machine.ProviderID)
		if err != nil {
			return nil, invalidf(ownership.ReasonProviderID, "%v", err)
		}
		if len(claims) == 0 || claims[0].id != id {
			claims = append(claims, claim{byProvider, id})
		}
	}
	return claims, nil
}

// subject returns the name of the subject of an answer with this reason, and the path of its field.
func (c change) subject(reason string) (name, path string) {
	if !c.names() && c.moves() {
		change, path := c.move()
		return fmt.Sprintf("%s of %s, which names instance %q", change, c.machine, message.Value(cmp.Or(c.machine.InstanceID, c.machine.ProviderID))), path
	}
	path, value := c.machine.Kind.ProviderIDPath, c.machine.ProviderID
	if c.instanceID && reason != ownership.ReasonProviderID {
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
		return c.machine.Kind.Correction()
	}
	_, path := c.move()
	return fmt.Sprintf("leave %s as it is, or clear %s and %s first", path, c.machine.Kind.InstanceIDPath, c.machine.Kind.ProviderIDPath)
}
