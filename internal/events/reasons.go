package events

// Reasons of Events on Workspaces.
const (
	// OwnerRewritten: the owner was replaced with a warrant-backed identity.
	OwnerRewritten = "OwnerRewritten"
	// OwnerNotRewritten: kcp cannot act as the owner, and warrantgate did not change it.
	OwnerNotRewritten = "OwnerNotRewritten"
	// WarrantDropped: the recorded owner lacks a warrant, group or scope of the creator.
	WarrantDropped = "WarrantDropped"
	// PrivilegedOwner: the owner has the permissions of an administrator.
	PrivilegedOwner = "PrivilegedOwner"
	// OwnerChangeDenied: a request to change the recorded owner was denied.
	OwnerChangeDenied = "OwnerChangeDenied"
	// NotRestored: a Workspace was created with values that only kcp and warrantgate set. They were not stored.
	NotRestored = "NotRestored"
	// OwnerDiffers: the owner of the LogicalCluster differs from the owner of the Workspace.
	OwnerDiffers = "OwnerDiffers"
	// InitializationRetriggered: kcp can now create the default API bindings, and warrantgate made it try again.
	InitializationRetriggered = "InitializationRetriggered"
	// RepairFailed: the owner of a workspace that is stuck in Initializing could not be rewritten.
	RepairFailed = "RepairFailed"
)
