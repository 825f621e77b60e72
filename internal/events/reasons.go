package events

// Reasons of Events on Workspaces.
const (
	// OwnerRewritten: the owner became a warrant-backed identity.
	OwnerRewritten = "OwnerRewritten"
	// OwnerNotRewritten: the owner is one that kcp cannot act as, and was left as it is.
	OwnerNotRewritten = "OwnerNotRewritten"
	// WarrantDropped: something that the creator arrived with was not passed on to the owner.
	WarrantDropped = "WarrantDropped"
	// PrivilegedOwner: the owner carries an administrator's power.
	PrivilegedOwner = "PrivilegedOwner"
	// OwnerChangeRefused: somebody tried to change the recorded owner.
	OwnerChangeRefused = "OwnerChangeRefused"
	// OwnerDiffers: the owner on the LogicalCluster is not the one on the Workspace.
	OwnerDiffers = "OwnerDiffers"
	// RepairFailed: the owner of a workspace that hangs could not be rewritten.
	RepairFailed = "RepairFailed"
)
