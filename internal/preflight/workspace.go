package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
)

// Workspace is the state of a workspace in kcp.
type Workspace struct {
	// Path is the workspace's path, or the name of its logical cluster if the path is unknown.
	Path string `json:"path"`
	// Cluster is its logical cluster; empty until the workspace is scheduled.
	Cluster logicalcluster.Name `json:"cluster,omitempty"`
	// Phase is its phase in kcp.
	Phase corev1alpha1.LogicalClusterPhaseType `json:"phase"`
	// NotCreated is true if the report is about the creation of the workspace, which then need not exist.
	NotCreated bool `json:"notCreated,omitempty"`
	// Deleted is true while it is being deleted.
	Deleted bool `json:"deleted,omitempty"`
	// Mount is the kind and name of the object that is mounted there instead of a logical cluster, such as "KubeCluster
	// default/west". A mount has no owner.
	Mount string `json:"mount,omitempty"`
	// Type is the path and name of its WorkspaceType, as in the Workspace, where it cannot be changed. If only the LogicalCluster was read, it is
	// the type there.
	Type string `json:"type,omitempty"`
	// CreatedBy is the creator that warrantgate recorded, otherwise the user name of the recorded owner.
	CreatedBy string `json:"createdBy,omitempty"`
	// RewrittenBy is the component that rewrote the owner: "policy" for the admission policy, "warrantgate" for the webhook, the
	// initializer or the repair. It is empty if the owner was not rewritten.
	RewrittenBy string `json:"rewrittenBy,omitempty"`
	// Owner is the recorded owner as JSON.
	Owner string `json:"-"`
	// clusterType is the type on the LogicalCluster, of which kcp creates the default API bindings. It is "" if the LogicalCluster was not read.
	clusterType string
	// parent is the logical cluster that contains the Workspace. If only the LogicalCluster was read, the administrator of the workspace can have
	// written another one.
	parent logicalcluster.Name
	// workspaceOwner is the owner on the Workspace, "" if only the LogicalCluster was read.
	workspaceOwner string
	// claimedPath is the path on the LogicalCluster, if it is not the workspace's.
	claimedPath string
	// RequiredGroups are the groups that a user needs for access.
	RequiredGroups string `json:"requiredGroups,omitempty"`
	// Initializers are all initializers of the workspace, Waiting those that have not finished.
	Initializers []corev1alpha1.LogicalClusterInitializer `json:"-"`
	Waiting      []corev1alpha1.LogicalClusterInitializer `json:"-"`
	// terminators are those for which kcp may act as the owner when the workspace is deleted, from v0.32 on.
	terminators []corev1alpha1.LogicalClusterTerminator
	// wasReady is whether the Workspace is Ready, whose owner kcp has then reduced to its name. Its LogicalCluster can have another phase.
	wasReady bool
	// Conditions are the messages of the conditions that are not True.
	Conditions []string `json:"conditions,omitempty"`

	// bindingError is kcp's last error about the default API bindings, as the LogicalCluster records it, "" if there was none.
	bindingError string
	// bindingsMade is whether kcp has found all default API bindings, as the LogicalCluster records it, and one that is incomplete.
	bindingsMade bool
	// unread is the reason why the LogicalCluster could not be read, if only the Workspace was.
	unread error
}

// RewrittenByWarrantgate is RewrittenBy if the webhook, the initializer or the repair rewrote the owner.
const RewrittenByWarrantgate = "warrantgate"

// Load reads a workspace by its path, or by the name of its logical cluster. It needs the permission to get the Workspace in its parent, or
// to get its LogicalCluster. The LogicalCluster is sufficient for the whole result. With only the Workspace, a part is missing.
func (c Checker) Load(ctx context.Context, path logicalcluster.Path) (Workspace, error) {
	ws := Workspace{Path: path.String()}
	at := path
	parent, name := path.Split()
	var unread error
	if !parent.Empty() {
		workspace := &tenancyv1alpha1.Workspace{}
		found, err := c.get(ctx, parent, name, workspace)
		switch {
		case err != nil:
			unread = errors.New(missingRight(err, "get", "workspaces.tenancy.kcp.io", parent))
		case !found:
			missing := path
			for ; c.isMissing(ctx, parent); parent, _ = parent.Split() {
				missing = parent
			}
			if missing != path {
				return Workspace{}, fmt.Errorf("there is no workspace %s", missing)
			}
			return Workspace{}, fmt.Errorf("there is no workspace %q in %s; if kcp denied its creation, `warrantgate explain workspace %s "+
				"--creator=USER --type=PATH:NAME` says what USER lacks", name, parent, path)
		default:
			ws.fromWorkspace(workspace)
			if ws.Mount != "" || ws.Cluster.Empty() {
				return ws, nil
			}
			at = ws.Cluster.Path()
		}
	}
	cluster := &corev1alpha1.LogicalCluster{}
	found, err := c.get(ctx, at, corev1alpha1.LogicalClusterName, cluster)
	switch {
	case err == nil && found:
		ws.fromLogicalCluster(cluster)
		c.readPath(ctx, &ws, cluster)
		return ws, nil
	case err == nil:
		err = errors.New("it has no LogicalCluster")
	default:
		err = errors.New(missingRight(err, "get", "logicalclusters.core.kcp.io", at))
	}
	switch {
	case !ws.Cluster.Empty():
		ws.unread = err
		return ws, nil
	case unread != nil:
		return Workspace{}, fmt.Errorf("%s could not be read: %w; %w", path, unread, err)
	default:
		return Workspace{}, fmt.Errorf("%s could not be read: %w", path, err)
	}
}

// WithType returns the workspace with the type of its Workspace, if that is known. The administrator of a workspace can write another type into
// the LogicalCluster, and Check would report the default API bindings of a type that this user may not read.
func (ws Workspace) WithType(workspaceType string) Workspace {
	ws.Type = cmp.Or(workspaceType, ws.Type)
	return ws
}

func (ws *Workspace) fromWorkspace(from *tenancyv1alpha1.Workspace) {
	ws.Cluster = logicalcluster.Name(cmp.Or(from.Spec.Cluster, from.Annotations[kcp.ClusterAnnotation]))
	ws.parent = logicalcluster.From(from)
	ws.Phase = from.Status.Phase
	ws.wasReady = ws.Phase == corev1alpha1.LogicalClusterPhaseReady
	ws.Deleted = from.DeletionTimestamp != nil
	if from.Spec.Mount != nil {
		ref := from.Spec.Mount.Reference
		ws.Mount = ref.Kind + " " + types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()
	}
	if from.Spec.Type != nil {
		ws.Type = from.Spec.Type.String()
	}
	ws.Owner = from.Annotations[kcp.OwnerAnnotation]
	ws.workspaceOwner = ws.Owner
	ws.CreatedBy = from.Annotations[kcp.CreatedByAnnotation]
	ws.RewrittenBy = rewrittenBy(from.Annotations)
	ws.RequiredGroups = from.Annotations[kcp.RequiredGroupsAnnotation]
	ws.Initializers, ws.Waiting = from.Status.Initializers, from.Status.Initializers
	ws.Conditions = unmet(from.Status.Conditions)
}

// fromLogicalCluster copies the state of the LogicalCluster, which kcp uses once it exists.
func (ws *Workspace) fromLogicalCluster(from *corev1alpha1.LogicalCluster) {
	ws.Cluster = logicalcluster.From(from)
	if ws.parent.Empty() && from.Spec.Owner != nil {
		ws.parent = logicalcluster.Name(from.Spec.Owner.Cluster)
	}
	ws.Phase = from.Status.Phase
	ws.Deleted = ws.Deleted || from.DeletionTimestamp != nil
	ws.clusterType = from.Annotations[tenancyv1alpha1.LogicalClusterTypeAnnotationKey]
	ws.Type = cmp.Or(ws.Type, kcp.PathIn(from, tenancyv1alpha1.LogicalClusterTypeAnnotationKey))
	ws.Owner = kcp.RecordedOwner(from)
	ws.RequiredGroups = from.Annotations[kcp.RequiredGroupsAnnotation]
	ws.Initializers, ws.Waiting = from.Spec.Initializers, from.Status.Initializers
	if from.Spec.CreatedBy != nil {
		ws.terminators = from.Status.Terminators
	}
	ws.Conditions = unmet(from.Status.Conditions)
	switch conditions.GetReason(from, tenancyv1alpha1.WorkspaceAPIBindingsInitialized) {
	case tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors:
		why := conditions.GetMessage(from, tenancyv1alpha1.WorkspaceAPIBindingsInitialized)
		ws.bindingError = strings.Clone(message.Clip(why, maxWhyBytes))
	case tenancyv1alpha1.WorkspaceInitializedWaitingOnAPIBindings:
		ws.bindingsMade = true
	}
}

// unmet returns the messages of the conditions that are not True.
func unmet(of conditionsv1alpha1.Conditions) []string {
	var messages []string
	for _, condition := range of {
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			messages = append(messages, condition.Message)
		}
	}
	return messages
}

// rewrittenBy returns RewrittenBy, from annotations of a Workspace, which only the system may write.
func rewrittenBy(annotations map[string]string) string {
	if annotations[kcp.CreatedByAnnotation] == "" {
		return ""
	}
	return cmp.Or(annotations[kcp.RewrittenByAnnotation], RewrittenByWarrantgate)
}

// readPath sets the path of a workspace that was loaded by the name of its logical cluster, and the path that its LogicalCluster claims. The
// administrator of a workspace can write any path there, also that of another workspace whose users a command in a finding would give permissions.
// So the path counts only if it leads to the logical cluster.
func (c Checker) readPath(ctx context.Context, ws *Workspace, from *corev1alpha1.LogicalCluster) {
	path := kcp.PathIn(from, core.LogicalClusterPathAnnotationKey)
	if path == "" {
		ws.claimedPath = from.Annotations[core.LogicalClusterPathAnnotationKey] // not a path
	}
	if path == "" || path == ws.Path {
		return
	}
	there := &corev1alpha1.LogicalCluster{}
	found, err := c.get(ctx, logicalcluster.NewPath(path), corev1alpha1.LogicalClusterName, there)
	switch {
	case err == nil && found && logicalcluster.From(there) == ws.Cluster:
		if logicalcluster.NewPath(ws.Path) == ws.Cluster.Path() {
			ws.Path = path
		}
	case err == nil || logicalcluster.NewPath(ws.Path).HasPrefix(kcp.Root): // the paths from root are canonical
		ws.claimedPath = path
	}
}

// pathOf returns the path of a logical cluster, or "" if it is not certain.
func (c Checker) pathOf(ctx context.Context, cluster logicalcluster.Name) string {
	object, ws := &corev1alpha1.LogicalCluster{}, Workspace{Path: cluster.String(), Cluster: cluster}
	if found, err := c.get(ctx, cluster.Path(), corev1alpha1.LogicalClusterName, object); err != nil || !found {
		return ""
	}
	if c.readPath(ctx, &ws, object); ws.Path == cluster.String() && cluster.Path() != kcp.Root {
		return ""
	}
	return ws.Path
}
