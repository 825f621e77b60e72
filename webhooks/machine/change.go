package machine

import (
	"fmt"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// change is what a request does to a machine's instance.
type change struct {
	machine clusterapi.Machine
	// instanceID and providerID are true where the field gets another value than it had, and one at all.
	instanceID, providerID bool
	// exists is false where the request is to create the machine.
	exists bool
}

func newChange(machine, old clusterapi.Machine, exists bool) change {
	return change{
		machine:    machine,
		instanceID: machine.InstanceID != "" && machine.InstanceID != old.InstanceID,
		providerID: machine.ProviderID != "" && machine.ProviderID != old.ProviderID,
		exists:     exists,
	}
}

// claims is true where the request names an instance anew. Clearing a field never does.
func (c change) claims() bool { return c.instanceID || c.providerID }

// id returns the instance that is named, or why it cannot be told which.
func (c change) id() (string, *finding) {
	kind := c.machine.Kind
	fromInstance, instanceErr := parse(kind.ParseInstanceID, c.machine.InstanceID)
	fromProvider, providerErr := parse(kind.ParseProviderID, c.machine.ProviderID)
	switch {
	case c.instanceID && instanceErr != nil:
		f := invalidf(ownership.ReasonInvalid, "%v", instanceErr)
		return "", &f
	case c.providerID && providerErr != nil:
		f := invalidf("ProviderIDInvalid", "%v", providerErr)
		f.aboutProviderID = true
		return "", &f
	// A field that is not changed may hold anything, but not something else than the one that is.
	case c.machine.InstanceID != "" && c.machine.ProviderID != "" && fromInstance != fromProvider:
		f := invalidf(ownership.ReasonMismatch, "%s %q and %s %q do not name the same instance; clear the wrong one first",
			kind.ProviderIDPath, clip(c.machine.ProviderID), kind.InstanceIDPath, clip(c.machine.InstanceID))
		return "", &f
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

// subject says in the words of the request what is judged, and the path of that field.
func (c change) subject(f finding) (subject, path string) {
	path, value := c.machine.Kind.ProviderIDPath, c.machine.ProviderID
	if c.instanceID && !f.aboutProviderID {
		path, value = c.machine.Kind.InstanceIDPath, c.machine.InstanceID
	}
	return fmt.Sprintf("%s %q of %s", path, clip(value), c.machine), path
}

// clip keeps a value that somebody else wrote within what a message can carry.
func clip(value string) string {
	const most = 100
	if len(value) <= most {
		return value
	}
	return value[:most] + "…"
}
