package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	"github.com/kcp-dev/sdk/apis/tenancy/termination"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/message"
)

// Check reports why a workspace does not become Ready. It checks a foreign owner as it is after the rewrite, so that missing permissions
// are known before the rewrite.
func (c Checker) Check(ctx context.Context, ws Workspace) Report {
	run := &check{Checker: c, ws: ws, report: Report{
		Workspace: ws, Types: []Type{}, Initializers: []Initializer{}, Bindings: []Binding{}, Findings: []Finding{},
	}}
	run.limit()
	run.run(ctx)
	return run.report
}

// check is one call of Check.
type check struct {
	Checker
	ws     Workspace
	report Report

	// actor is the identity that kcp acts as, or will act as once the owner is rewritten. It is nil if there is none.
	actor *identity.Owner
	// description names the actor.
	description string
	// types are the workspace's type and all types that it extends, trimmed. held is the size of their references.
	types []*tenancyv1alpha1.WorkspaceType
	held  int
	// requests is the number of requests.
	requests int
}

func (c *check) run(ctx context.Context) {
	if c.ws.unread != nil && !c.ws.Deleted { // the LogicalCluster may be gone already
		c.undetermined(c.ready(), "what the LogicalCluster says could not be determined, only what the Workspace does", c.ws.unread.Error())
	}
	if c.ws.Mount != "" || c.ws.Cluster.Empty() || c.ws.Deleted {
		c.terminators()
		c.notReady()
		return
	}
	c.path()
	c.owner(ctx)
	c.resolveTypes(ctx)
	c.bindings(ctx)
	if c.waitsForBindings() && c.actor != nil && !c.report.has(OwnerForeign) {
		c.entry(ctx)
	}
	c.initializers()
	c.terminators()
	c.eventsNeedGroups()
	c.notReady()
}

func (c *check) add(f Finding) { c.report.Findings = append(c.report.Findings, f) }

func (c *check) undetermined(advisory bool, message, why string) {
	c.add(Finding{Reason: Undetermined, Advisory: advisory, Message: message + ": " + why})
}

func (c *check) ready() bool { return c.ws.Phase == corev1alpha1.LogicalClusterPhaseReady }

// initialized reports whether kcp is about to report the LogicalCluster as Ready. kcp may have reduced the owner of the Workspace to its name
// already: it reports a Workspace as Ready as soon as its LogicalCluster has no initializers left.
func (c *check) initialized() bool {
	return c.ws.Phase == corev1alpha1.LogicalClusterPhaseInitializing && len(c.ws.Waiting) == 0
}

// waitsForBindings reports whether kcp still has to create API bindings as the owner.
func (c *check) waitsForBindings() bool {
	return slices.Contains(c.ws.Waiting, tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
}

// path reports a path on the LogicalCluster that is not the workspace's, which its administrator can write. kcp copies it to the APIExports and
// WorkspaceTypes that are written there, and finds these by it.
func (c *check) path() {
	if c.ws.claimedPath == "" {
		return
	}
	c.add(Finding{
		Reason: PathDiffers, Advisory: true,
		Message: fmt.Sprintf("the annotation %s of the LogicalCluster is %q, which is not the path of this workspace: kcp gives it to the APIExports and "+
			"WorkspaceTypes that are written here, and binds no APIExport of the same name in the workspace that has this path, because there are several",
			core.LogicalClusterPathAnnotationKey, message.Value(c.ws.claimedPath)),
		Next: "set the annotation to the path of the workspace, and write its APIExports and WorkspaceTypes again; ask its administrator why it was changed",
	})
}

// owner checks the recorded owner and sets the actor.
func (c *check) owner(ctx context.Context) {
	rewritten, rewrite := identity.Rewrite(c.ws.Owner, c.ws.parent, c.ws.Cluster, c.ws.RequiredGroups, identity.Policy{})
	recorded, err := identity.ParseOwner(c.ws.Owner)
	if err == nil {
		c.describe(ctx, recorded)
	}
	if !identity.SameOwner(c.ws.workspaceOwner, c.ws.Owner, c.ws.parent, c.ws.Cluster, c.ws.RequiredGroups, c.ready() || c.initialized() || c.ws.wasReady && len(c.ws.Waiting) == 0) {
		c.add(Finding{
			Reason: OwnerDiffers, Message: identity.DescribeDifference(c.ws.workspaceOwner, c.ws.Owner),
			Next: "ask who made the WorkspaceType " + c.ws.Type,
		})
	}
	bareName := err == nil && recorded.IsServiceAccount() && rewrite.Reason != identity.InScope
	switch {
	case c.ready() && bareName:
		finding := Finding{
			Reason: OwnerForeign,
			Message: fmt.Sprintf("the owner %q is the bare name of a service account of another workspace: "+
				"anyone who creates a service account of that name in this one is its administrator", recorded.Username),
			Next: c.repair(),
		}
		switch {
		case rewrite.Reason == identity.HomeOutOfScope:
			finding.Message += "; " + rewrite.Message
			finding.Next = "move to a new workspace, and have the service account create it with its own token"
		case !rewrite.Reason.Rewritten(): // up to v0.30, kcp removes the home
			finding.Next = "move to a new workspace: kcp no longer records the home of the service account, so this one cannot be repaired"
		}
		c.add(finding)
	case c.ready(): // kcp acts as the owner only for terminators
	case rewrite.Reason.Rewritten():
		c.actor = &rewritten
		c.add(Finding{
			Reason: OwnerForeign,
			Message: fmt.Sprintf("the owner, %s, is foreign in logical cluster %q: kcp acts as %q there, and denies it access",
				c.description, c.ws.Cluster, recorded.Username),
			Next: c.repair(),
		})
	case !rewrite.Reason.Harmless():
		c.add(Finding{
			Reason: OwnerUnusable, Message: rewrite.Message,
			Next: "create the workspace again as a user whose home kcp knows",
		})
	case dropsPrivileged(rewrite):
		c.actor = &rewritten
	default:
		c.actor = &recorded
	}
	if !rewrite.Reason.Rewritten() && dropsPrivileged(rewrite) {
		c.add(c.privileged(rewrite))
	}
	if err == nil && c.ws.CreatedBy == "" {
		c.report.Workspace.CreatedBy = recorded.Username
	}
}

// dropsPrivileged reports whether a warrant of the recorded owner has the permissions of an administrator, or cannot be read. The delegation
// policy, which is unknown here, may keep all others.
func dropsPrivileged(rewrite identity.Report) bool {
	return slices.ContainsFunc(rewrite.Dropped, func(drop identity.Drop) bool {
		return drop.Kind == identity.DroppedWarrant && (drop.Reason == identity.Privileged || drop.Reason == identity.Unreadable)
	})
}

// privileged returns the finding for such an owner, if it is not rewritten for another reason.
func (c *check) privileged(rewrite identity.Report) Finding {
	finding := Finding{
		Reason: PrivilegedOwner,
		Message: fmt.Sprintf("the owner, %s, has a warrant that must not be stored (%s), such as the administrator's that kcp adds to a request through an "+
			"APIExport's virtual workspace: kcp creates the default API bindings with its permissions, also those that the owner may not create",
			c.description, cmp.Or(strings.Join(rewrite.Privileged, ", "), "it cannot be read")),
		Next: c.repair(),
	}
	if c.ready() {
		finding.Next = fmt.Sprintf("delete the API bindings in %s that the owner may not create, or move to a new workspace: the warrant of a Ready workspace "+
			"stays recorded; with the gates installed (`warrantgate install kcp`) new workspaces have none", c.ws.Path)
	}
	return finding
}

// repair returns the remedy for a foreign owner.
func (c *check) repair() string {
	return c.runRepair() + "; with the gates installed (`warrantgate install kcp`) new workspaces need no repair"
}

// runRepair names the command that repairs the workspace, whatever its age, and who can run it: a tenant who reads this cannot.
func (c *check) runRepair() string {
	return fmt.Sprintf("run `warrantgate repair --under=%s --after=0s%s` as an administrator of kcp", c.ws.Path, c.RepairFlags)
}

// describe adds the owner to the report, with its identities in each logical cluster.
func (c *check) describe(ctx context.Context, owner identity.Owner) {
	view := &Owner{Recorded: owner, InScope: owner.InScope(c.ws.Cluster)}
	if !c.ws.NotCreated {
		view.Places = append(view.Places, placeOf(owner, c.ws.Cluster, c.ws.Path, false))
	}
	paths := map[logicalcluster.Name]string{}
	for _, home := range identity.Homes(owner) {
		if home == c.ws.Cluster {
			continue
		}
		paths[home] = c.pathOf(ctx, home)
		view.Places = append(view.Places, placeOf(owner, home, paths[home], true))
	}
	view.Description = fmt.Sprintf("user %q", owner.Username)
	if home, namespace, name, ok := owner.ServiceAccount(); ok {
		where := "an unknown workspace"
		switch {
		case home.Empty():
		case owner.InScope(home):
			where = cmp.Or(paths[home], home.String())
		default: // the home is only claimed, and Events must not contain its path
			where = home.String()
		}
		view.Description = fmt.Sprintf("service account %s/%s of %s", namespace, name, where)
	}
	c.description = view.Description
	c.report.Owner = view
}

func placeOf(owner identity.Owner, cluster logicalcluster.Name, path string, home bool) Place {
	place := Place{Cluster: cluster, Workspace: path, Home: home}
	for _, as := range identity.Effective(owner, cluster, true) {
		i := slices.IndexFunc(place.As, func(known identity.Owner) bool { return known.Username == as.Username })
		if i < 0 {
			i = len(place.As)
			place.As = append(place.As, identity.Owner{Username: as.Username})
		}
		for _, group := range as.Groups {
			if !slices.Contains(place.As[i].Groups, group) {
				place.As[i].Groups = append(place.As[i].Groups, group)
			}
		}
	}
	return place
}

// entry checks whether the owner may create API bindings in the workspace. It may not if the workspace requires groups that the owner is
// not in.
func (c *check) entry(ctx context.Context) {
	allowed, unknown := c.allowed(ctx, c.ws.Cluster.Path(), c.ws.Cluster.Path(), authorizationv1.ResourceAttributes{
		Group: apisv1alpha2.SchemeGroupVersion.Group, Version: "*", Resource: "apibindings", Verb: "create",
	}, false)
	switch {
	case unknown != "":
		c.undetermined(false, fmt.Sprintf("whether %s may create APIBindings in %s could not be determined", c.description, c.ws.Path), unknown)
	case !allowed && c.ws.RequiredGroups != "":
		c.add(Finding{
			Reason: OwnerDenied,
			Message: fmt.Sprintf("%s may not create APIBindings in %s, which requires the groups %q",
				c.description, c.ws.Path, c.ws.RequiredGroups),
			Next: "create the workspace again as a user in these groups",
		})
	case !allowed:
		c.add(Finding{
			Reason:  OwnerDenied,
			Message: fmt.Sprintf("%s may not create APIBindings in %s", c.description, c.ws.Path),
			Next:    fmt.Sprintf("check whether the ClusterRoleBinding \"workspace-admin\" in %s names %q", c.ws.Cluster, c.actor.Username),
		})
	}
}

// initializers adds each initializer to the report, with the component that runs it.
func (c *check) initializers() {
	for _, initializer := range c.ws.Initializers {
		waiting := slices.Contains(c.ws.Waiting, initializer)
		own := initializer == tenancyv1alpha1.WorkspaceAPIBindingsInitializer
		of := "the provider of the WorkspaceType " + c.typeOf(initializer)
		if own {
			of = "kcp, which creates the default API bindings as the owner"
		}
		c.report.Initializers = append(c.report.Initializers, Initializer{Name: string(initializer), Waiting: waiting, Of: of})
		switch {
		case !waiting:
		case !own:
			c.add(c.pendingOfOthers(initializer))
		case !slices.ContainsFunc(c.report.Findings, func(f Finding) bool {
			// A pending initializer of another component does not explain why this one is pending.
			return !f.Advisory && f.Reason != InitializerPending
		}):
			lastError := "" // of what explain cannot find, such as another workspace with the path of an APIExport
			if c.ws.bindingError != "" {
				lastError = "; kcp's last error: " + c.ws.bindingError
			}
			c.add(Finding{
				Reason:  InitializerPending,
				Message: fmt.Sprintf("initializer %s has not finished, although nothing that it needs is missing%s", initializer, lastError),
				Next: fmt.Sprintf("the repair of `warrantgate serve` makes kcp try again within about a minute; without it, "+
					"%s, or annotate the type: %s", c.runRepair(), touch("workspacetype", c.ws.Type)),
			})
		}
	}
}

// terminators reports an owner as which terminators cannot finish, or with an administrator's permissions. kcp from v0.32 on keeps the whole owner
// of a Ready workspace, and acts as it for the terminators of types without terminatorPermissions.
func (c *check) terminators() {
	owner, err := identity.ParseOwner(c.ws.Owner)
	actsAsItself := func(terminator corev1alpha1.LogicalClusterTerminator) bool {
		return slices.ContainsFunc(c.types, func(t *tenancyv1alpha1.WorkspaceType) bool {
			return len(t.Spec.TerminatorPermissions) > 0 && termination.TerminatorForType(t) == terminator
		})
	}
	if !c.ready() && !c.ws.Deleted || !slices.ContainsFunc(c.ws.terminators, func(t corev1alpha1.LogicalClusterTerminator) bool { return !actsAsItself(t) }) || err != nil {
		return
	}
	_, rewrite := identity.Rewrite(c.ws.Owner, c.ws.parent, c.ws.Cluster, c.ws.RequiredGroups, identity.Policy{})
	acting := fmt.Sprintf("when the workspace is deleted, terminators whose WorkspaceType has no terminatorPermissions act as its owner, user %q, ",
		owner.Username)
	const next = "set spec.terminatorPermissions of these types: the controllers of their terminators then act as themselves"
	switch {
	case c.report.has(OwnerForeign, PrivilegedOwner):
	case !owner.InScope(c.ws.Cluster):
		c.add(Finding{
			Reason: OwnerForeign, Advisory: true, // of a workspace that is being deleted, the types were not read
			Message: fmt.Sprintf("%swhich is foreign in logical cluster %q: kcp denies what they do, so that the deletion does not finish", acting, c.ws.Cluster),
			Next:    next,
		})
	case len(rewrite.Privileged) > 0:
		c.add(Finding{
			Reason: PrivilegedOwner, Advisory: true,
			Message: fmt.Sprintf("%swith an administrator's permissions (%s)", acting, strings.Join(rewrite.Privileged, ", ")),
			Next:    "ask whether its creator is an administrator; if not, " + next,
		})
	}
}

// pendingOfOthers describes an initializer of another component that has not finished. kcp lets its controller act as the owner of the
// workspace, unless the WorkspaceType has initializerPermissions.
func (c *check) pendingOfOthers(initializer corev1alpha1.LogicalClusterInitializer) Finding {
	wt := c.typeWith(initializer)
	finding := Finding{
		Reason:  InitializerPending,
		Message: fmt.Sprintf("initializer %s has not finished; that is for the provider of the WorkspaceType %s to do", initializer, c.typeOf(initializer)),
		Next:    fmt.Sprintf("check whether its controller runs, and what its log says about logical cluster %s", c.ws.Cluster),
	}
	switch {
	case wt == nil: // it could not be read
	case len(wt.Spec.InitializerPermissions) > 0:
		finding.Message += fmt.Sprintf(", with the permissions in spec.initializerPermissions of %s and not as the owner", typeName(wt))
		finding.Next += ", for example which of these permissions it lacks"
	case c.report.has(OwnerForeign):
		finding.Message = fmt.Sprintf("initializer %s has not finished: the WorkspaceType %s has no initializerPermissions, "+
			"so its controller acts as the owner, whose requests kcp denies", initializer, typeName(wt))
		finding.Next = "repair the owner: " + c.repair()
	}
	return finding
}

// eventsNeedGroups adds the reason why Events about the workspace may be missing. They are in the parent, which requires the same groups:
// kcp copies the required groups when a workspace is created.
func (c *check) eventsNeedGroups() {
	if c.ws.RequiredGroups == "" {
		return
	}
	c.add(Finding{
		Reason: EventsNeedGroups, Advisory: true,
		Message: fmt.Sprintf("the workspace requires the groups %q, so there may be no Events of warrantgate about it: its user can "+
			"write them only in these groups, or as a service account", c.ws.RequiredGroups),
		Next: "add a clause with a group of warrantgate's user to the required groups of the parent, such as " +
			"\"…;warrantgate-events\"; `warrantgate check events`, with the kubeconfig of serve and the path of the parent, says whether it is there",
	})
}

// typeOf returns the path and name of the type of an initializer. kcp names an initializer after the type's logical cluster, which users do
// not know.
func (c *check) typeOf(initializer corev1alpha1.LogicalClusterInitializer) string {
	if wt := c.typeWith(initializer); wt != nil {
		return typeName(wt)
	}
	return string(initializer)
}

// typeWith returns the type of an initializer, or nil if it could not be read.
func (c *check) typeWith(initializer corev1alpha1.LogicalClusterInitializer) *tenancyv1alpha1.WorkspaceType {
	for _, t := range c.types {
		if initialization.InitializerForType(t) == initializer {
			return t
		}
	}
	return nil
}

// touch returns a command that makes kcp process a workspace, or all workspaces of a type, again. kcp does not do so by itself when permissions are
// granted, and waits for up to 1000 seconds after failed attempts.
func touch(resource, path string) string {
	parent, name := logicalcluster.NewPath(path).Split()
	return fmt.Sprintf("in %s, `kubectl annotate %s %s --overwrite touched=\"$(date)\"`", parent, resource, name)
}

// notReady adds the reason why a workspace is not Ready if there is no other finding.
func (c *check) notReady() {
	because, again := "", "kcp tries again within 17 minutes, and once at each change of the Workspace (repeat it until it is Ready: a conflict ends an attempt)"
	if parent, _ := logicalcluster.NewPath(c.ws.Path).Split(); !parent.Empty() {
		again += ", such as: " + touch("workspace", c.ws.Path)
	}
	if len(c.ws.Conditions) > 0 {
		because = ": " + strings.Join(c.ws.Conditions, "; ")
	}
	switch {
	case c.ws.Deleted:
		c.add(Finding{Reason: NotReady, Message: "the workspace is being deleted" + because})
	case c.ready() || c.report.has():
	case c.ws.Cluster.Empty() && c.ws.Mount == "":
		c.add(Finding{
			Reason: NotReady, Message: "kcp has not found a shard for the workspace yet" + because,
			Next: "if the gates are installed, check whether warrantgate runs: without it, kcp may not schedule workspaces with foreign owners; then " + again,
		})
	case c.initialized():
		c.add(Finding{
			Reason: NotReady, Message: "all initializers have finished, and kcp is about to report the workspace as Ready",
			Next: "wait some seconds; if it stays, as after an outage of a shard, " + again,
		})
	default:
		c.add(Finding{Reason: NotReady, Message: fmt.Sprintf("the workspace is %s%s", c.ws.Phase, because)})
	}
}
