//go:build e2e

package workspace_test

import (
	"context"
	"encoding/json"
	"maps"

	jsonpatch "github.com/evanphx/json-patch/v5"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	clusterAnnotation = "internal.tenancy.kcp.io/cluster"
	lastApplied       = "kubectl.kubernetes.io/last-applied-configuration"
	teamAnnotation    = "example.com/team"
)

// send writes a Workspace as a tool does.
type send func(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error

// A backup of a Workspace contains what kcp and warrantgate have recorded about it. Tools create it again in another workspace: kcp v0.32 and
// later record everything anew, and before the denial says what to leave out.
var _ = Describe("A Workspace that is created from a backup", Ordered, ContinueOnFailure, func() {
	var target place
	var backup *unstructured.Unstructured

	BeforeAll(func(ctx SpecContext) {
		origin := newPlace(ctx)
		target = newPlace(ctx)
		suite.CreateWorkspace(ctx, origin.ServiceAccount(ctx, "bot"), "stored", kcptest.WithAnnotation(teamAnnotation, "red"))
		origin.WaitSettled(ctx, "stored")
		backup = read(ctx, origin.Admin(), "stored")
		Expect(backup.GetAnnotations()).To(And(HaveKey(clusterAnnotation), HaveKey(kcptest.CreatedByAnnotation), HaveKey(kcptest.OwnerAnnotation)))
		Expect(backup.Object).To(HaveKeyWithValue("spec", And(HaveKey("cluster"), HaveKey("URL"))))
	}, NodeTimeout(specTimeout))

	DescribeTable("gets a logical cluster of its own, and its creator as owner",
		func(ctx SpecContext, tool string, serviceAccount bool, write send) {
			name := tool + "-" + rand.String(6)
			creator, owner := target.User, name
			if serviceAccount {
				creator = func(ctx context.Context, name string, _ ...string) *rest.Config {
					return target.ServiceAccount(ctx, name)
				}
				owner = target.GlobalName(name)
			}
			c := suite.KCPClient(creator(ctx, name))
			sent := manifest(backup)
			sent.SetName(name)
			if !suite.ByPolicy(kcp) {
				leaveOutPlacement(sent) // kcp itself denies that
				var denial error
				Eventually(ctx, func() error { denial = write(ctx, c, sent.DeepCopy()); return denial }).Should(MatchError(ContainSubstring("out of the request")))
				Expect(denial).To(And(beNotAllowed, MatchError(And(ContainSubstring(clusterAnnotation), ContainSubstring(kcptest.CreatedByAnnotation)))))
				leaveOut(sent)
			}
			Eventually(ctx, func() error { return write(ctx, c, sent.DeepCopy()) }).Should(Succeed()) // until kcp observes a new service account
			if suite.ByPolicy(kcp) {
				target.expectNotRestored(ctx, name, clusterAnnotation, kcptest.CreatedByAnnotation, "spec.cluster", "spec.URL")
			}

			ws := target.WaitReady(ctx, name)
			old, _, err := unstructured.NestedString(backup.Object, "spec", "cluster")
			Expect(err).NotTo(HaveOccurred())
			Expect(ws.Spec.Cluster).NotTo(Or(BeEmpty(), Equal(old)))
			Expect(ws.Spec.URL).To(HaveSuffix(target.Path + ":" + name))
			Expect(ws.Annotations).To(And(HaveKeyWithValue(teamAnnotation, "red"), HaveKeyWithValue(clusterAnnotation, ws.Spec.Cluster), HaveKeyWithValue("kcp.io/cluster", target.Cluster)))
			if serviceAccount {
				Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, target.Cluster+":default:"+name))
			} else {
				Expect(ws.Annotations).NotTo(HaveKey(kcptest.CreatedByAnnotation))
			}
			lc, err := kcptest.GetLogicalCluster(ctx, target.Server.ShardAdmin(ws.Spec.Cluster))
			Expect(err).NotTo(HaveOccurred())
			Expect(ownerOf(lc).Username).To(Equal(owner))
		},
		Entry("with Velero", "velero", false, send(createAsVelero), SpecTimeout(specTimeout)),
		Entry("with Velero, as a service account", "velero", true, send(createAsVelero), SpecTimeout(specTimeout)),
		Entry("with Argo CD, by server-side apply", "argocd", true, send(applyAsArgoCD), SpecTimeout(specTimeout)),
		Entry("with Argo CD, as kubectl apply", "argocd", true, send(createAsKubectlApply), SpecTimeout(specTimeout)),
		Entry("with Flux", "flux", true, send(applyAsFlux), SpecTimeout(specTimeout)),
	)

	It("keeps the owner of its creator, also if the backup names another one and required groups", func(ctx SpecContext) {
		mallory := target.User(ctx, "mallory")
		held := target.heldType(ctx)
		options := []kcptest.WorkspaceOption{held, kcptest.WithAnnotation(kcptest.OwnerAnnotation, forgedOwner),
			kcptest.WithAnnotation("authorization.kcp.io/required-groups", "system:masters"), kcptest.WithAnnotation("kcp.io/path", "root:stolen"), kcptest.WithAnnotation("kcp.io/cluster", "root")}
		if suite.ByPolicy(kcp) {
			options = append(options, kcptest.WithAnnotation(clusterAnnotation, "root"), kcptest.WithAnnotation("core.kcp.io/shard", "none"),
				kcptest.WithAnnotation("internal.tenancy.kcp.io/shard", "none"))
		}
		ws := suite.CreateWorkspace(ctx, mallory, "stolen", options...)
		Expect(ws.Annotations).To(And(Not(HaveKey("authorization.kcp.io/required-groups")), HaveKeyWithValue("kcp.io/path", target.Path)))
		Expect(target.recordedOwner(ctx, "stolen").Username).To(Equal("mallory"))
		ws, err := kcptest.GetWorkspace(ctx, target.Admin(), "stolen")
		Expect(err).NotTo(HaveOccurred())
		Expect(ws.Annotations).To(And(HaveKeyWithValue("kcp.io/cluster", target.Cluster), HaveKeyWithValue(clusterAnnotation, ws.Spec.Cluster),
			HaveKeyWithValue(kcptest.OwnerAnnotation, HavePrefix(`{"username":"mallory",`))))
	}, SpecTimeout(specTimeout))

	// Velero with restoreStatus creates the object, and then replaces the status of what it created with that of the backup.
	It("has the status that kcp gives it, and nothing else changes by way of the status", func(ctx SpecContext) {
		tenant, administrator := suite.KCPClient(target.clusterAdmin(ctx, "velero")), suite.KCPClient(target.Admin())
		sent := manifest(backup)
		sent.SetName("with-status")
		if !suite.ByPolicy(kcp) {
			leaveOutPlacement(sent)
			leaveOut(sent)
		}
		status := manifest(backup) // also with the annotations and fields that are not stored
		status.SetName(sent.GetName())
		status.Object["status"] = backup.DeepCopy().Object["status"]
		Expect(createAsVelero(ctx, tenant, sent)).To(Succeed())
		status.SetResourceVersion(sent.GetResourceVersion())
		Expect(tenant.Status().Update(ctx, status.DeepCopy())).To(And(beNotAllowed, MatchError(ContainSubstring(`cannot update resource "workspaces/status"`))))
		Expect(administrator.Status().Update(ctx, status.DeepCopy())).To(MatchError(Or(ContainSubstring("spec.cluster must be set for phase Ready"), ContainSubstring("has been modified"))))
		before := target.WaitSettled(ctx, sent.GetName())

		By("an administrator writes each phase, and with it a forged owner")
		status.SetAnnotations(map[string]string{kcptest.OwnerAnnotation: forgedOwner, clusterAnnotation: "root", kcptest.CreatedByAnnotation: "root:default:boss"})
		for _, phase := range []string{"Ready", "Initializing", "Scheduling", "Unavailable"} {
			Expect(unstructured.SetNestedField(status.Object, phase, "status", "phase")).To(Succeed())
			Eventually(ctx, func() error { // until kcp does not change it at the same time
				status.SetResourceVersion(read(ctx, target.Admin(), before.Name).GetResourceVersion())
				return administrator.Status().Update(ctx, status.DeepCopy())
			}).Should(Succeed(), phase)
			after := target.WaitSettled(ctx, before.Name)
			Expect(after.Spec).To(Equal(before.Spec), phase)
			Expect(after.Annotations).To(Equal(before.Annotations), phase)
		}
		lc, err := kcptest.GetLogicalCluster(ctx, target.Server.ShardAdmin(before.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		Expect(ownerOf(lc).Username).To(Equal("velero"))
	}, SpecTimeout(specTimeout))

	It("is not reported if the creation is a dry run", func(ctx SpecContext) {
		sent := manifest(backup)
		sent.SetName("dry-run")
		err := suite.KCPClient(target.User(ctx, "dry")).Create(ctx, sent, client.DryRunAll)
		if suite.ByPolicy(kcp) {
			Expect(err).NotTo(HaveOccurred())
			Expect(sent.GetAnnotations()).To(And(HaveKey(teamAnnotation), Not(HaveKey(clusterAnnotation)), Not(HaveKey(kcptest.CreatedByAnnotation))))
			sent = manifest(backup)
			sent.SetName("reported")
			Expect(suite.KCPClient(target.User(ctx, "wet")).Create(ctx, sent)).To(Succeed())
			target.expectNotRestored(ctx, "reported", clusterAnnotation)
		} else {
			Expect(err).To(beNotAllowed)
		}
		Expect(target.eventsOfCluster(ctx, Default)).NotTo(ContainElement(HaveField("Message", ContainSubstring("dry-run"))))
	}, SpecTimeout(specTimeout))
})

// What an update leaves out is kept as it is: by a policy on kcp v0.32 and later, and by the webhook before.
var _ = Describe("A Workspace that is updated from a manifest", Ordered, ContinueOnFailure, func() {
	var parent place
	var stored *unstructured.Unstructured
	var config *rest.Config

	BeforeAll(func(ctx SpecContext) {
		parent = newPlace(ctx)
		config = parent.ServiceAccount(ctx, "gitops")
		suite.CreateWorkspace(ctx, config, "stored")
		parent.WaitSettled(ctx, "stored")
		stored = read(ctx, parent.Admin(), "stored")
		Expect(stored.GetAnnotations()).To(HaveKey(kcptest.CreatedByAnnotation))
	}, NodeTimeout(specTimeout))

	// bare is a manifest of the Workspace without annotations that only the system may change.
	bare := func(team string) *unstructured.Unstructured {
		ws := manifest(stored)
		ws.SetAnnotations(map[string]string{teamAnnotation: team})
		return ws
	}
	expectKept := func(ctx SpecContext, team string) {
		GinkgoHelper()
		now := read(ctx, parent.Admin(), "stored").GetAnnotations()
		for key, value := range stored.GetAnnotations() {
			Expect(now).To(HaveKeyWithValue(key, value))
		}
		Expect(now).To(HaveKeyWithValue(teamAnnotation, team))
	}

	DescribeTable("keeps annotations that the manifest leaves out, and denies changed ones",
		func(ctx SpecContext, team string, write send) {
			c := suite.KCPClient(config)
			whole := manifest(stored) // as the tool has sent it before, with all that was recorded
			annotations := maps.Clone(whole.GetAnnotations())
			annotations[teamAnnotation] = team + "-before"
			whole.SetAnnotations(annotations)
			Expect(write(ctx, c, whole.DeepCopy())).To(Succeed())
			Expect(write(ctx, c, bare(team))).To(Succeed())
			expectKept(ctx, team)

			for _, key := range []string{kcptest.OwnerAnnotation, clusterAnnotation, kcptest.CreatedByAnnotation} {
				changed := bare("changed")
				changed.SetAnnotations(map[string]string{key: forgedOwner, teamAnnotation: "changed"})
				err := write(ctx, c, changed)
				Expect(err).To(beNotAllowed, key)
				Expect(err).To(MatchError(And(ContainSubstring("tried to change "+key+" of workspace"), ContainSubstring("or out of the request"))))
			}
			expectKept(ctx, team)
		},
		Entry("with Velero, which patches what differs from the backup", "velero", send(patchAsVelero), SpecTimeout(specTimeout)),
		Entry("with Argo CD, by server-side apply", "argocd", send(applyAsArgoCD), SpecTimeout(specTimeout)),
		Entry("with Argo CD, as kubectl apply", "kubectl", send(patchAsKubectlApply), SpecTimeout(specTimeout)),
		Entry("with Argo CD, by replacing it", "replace", send(replaceAsArgoCD), SpecTimeout(specTimeout)),
		Entry("with Flux", "flux", send(applyAsFlux), SpecTimeout(specTimeout)),
	)

	It("keeps them if it is replaced without any annotation", func(ctx SpecContext) {
		ws := bare("")
		ws.SetAnnotations(nil)
		Expect(replaceAsArgoCD(ctx, suite.KCPClient(config), ws)).To(Succeed())
		Expect(suite.KCPClient(config).Patch(ctx, ws, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+teamAnnotation+`":"none"}}}`)))).To(Succeed())
		expectKept(ctx, "none")
	}, SpecTimeout(specTimeout))

	It("keeps each that is removed", func(ctx SpecContext) {
		for key := range stored.GetAnnotations() {
			Expect(annotate(ctx, config, "stored", key, nil)).To(Succeed(), key)
		}
		Expect(annotate(ctx, config, "stored", teamAnnotation, "removed")).To(Succeed())
		expectKept(ctx, "removed")
	}, SpecTimeout(specTimeout))

	It("keeps them while warrantgate is down; before kcp v0.32 the update is denied", func(ctx SpecContext) {
		Expect(annotate(ctx, config, "stored", teamAnnotation, "up")).To(Succeed())
		stopGate()
		err := annotate(ctx, config, "stored", kcptest.OwnerAnnotation, nil)
		if suite.ByPolicy(kcp) {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(beNotAllowed)
			Expect(err).To(MatchError(And(ContainSubstring("leave it as it is"), Not(ContainSubstring("out of the request")))))
		}
		Expect(annotate(ctx, config, "stored", kcptest.OwnerAnnotation, forgedOwner)).To(beNotAllowed)
		expectKept(ctx, "up")
	}, SpecTimeout(specTimeout))
})

// read returns a Workspace as it is stored.
func read(ctx context.Context, config *rest.Config, name string) *unstructured.Unstructured {
	GinkgoHelper()
	ws := workspaceNamed(name)
	Expect(suite.KCPClient(config).Get(ctx, client.ObjectKey{Name: name}, ws)).To(Succeed())
	return ws
}

func workspaceNamed(name string) *unstructured.Unstructured {
	ws := &unstructured.Unstructured{}
	ws.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	ws.SetName(name)
	return ws
}

// manifest returns what Velero keeps of a stored object: all but the status and the metadata that the API server sets.
func manifest(stored *unstructured.Unstructured) *unstructured.Unstructured {
	ws := stored.DeepCopy()
	unstructured.RemoveNestedField(ws.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "generateName", "selfLink"} {
		unstructured.RemoveNestedField(ws.Object, "metadata", field)
	}
	return ws
}

// leaveOutPlacement removes the fields of spec that kcp sets.
func leaveOutPlacement(ws *unstructured.Unstructured) {
	for _, field := range []string{"cluster", "URL"} {
		unstructured.RemoveNestedField(ws.Object, "spec", field)
	}
}

// leaveOut removes the annotations that the README names.
func leaveOut(ws *unstructured.Unstructured) {
	annotations := ws.GetAnnotations()
	for _, key := range []string{
		clusterAnnotation, "internal.tenancy.kcp.io/shard", "core.kcp.io/shard", kcptest.CreatedByAnnotation, "warrantgate.dev/rewritten-by",
		"repaired.warrantgate.dev/at",
	} {
		delete(annotations, key)
	}
	ws.SetAnnotations(annotations)
}

// createAsVelero creates the object.
func createAsVelero(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	ws.SetLabels(map[string]string{"velero.io/backup-name": "nightly", "velero.io/restore-name": "nightly-1"})
	return c.Create(ctx, ws)
}

// patchAsVelero sends the difference between the stored object and the backup, as with existingResourcePolicy: update.
func patchAsVelero(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	stored := workspaceNamed(ws.GetName())
	if err := c.Get(ctx, client.ObjectKeyFromObject(ws), stored); err != nil {
		return err
	}
	patch, err := jsonpatch.CreateMergePatch(encoded(manifest(stored)), encoded(ws))
	if err != nil {
		return err
	}
	return c.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
}

func applyAsArgoCD(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(ws), client.FieldOwner("argocd-controller"), client.ForceOwnership)
}

// applyAsFlux applies the object first as a dry run.
func applyAsFlux(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	options := []client.ApplyOption{client.FieldOwner("kustomize-controller"), client.ForceOwnership}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(ws.DeepCopy()), append(options, client.DryRunAll)...); err != nil {
		return err
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(ws), options...)
}

// createAsKubectlApply creates the object with the manifest in an annotation.
func createAsKubectlApply(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	remember(ws)
	return c.Create(ctx, ws)
}

// patchAsKubectlApply patches what has changed since the manifest before, which is in an annotation, and removes what that had and this has not.
func patchAsKubectlApply(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	stored := workspaceNamed(ws.GetName())
	if err := c.Get(ctx, client.ObjectKeyFromObject(ws), stored); err != nil {
		return err
	}
	remember(ws)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(stored.GetAnnotations()[lastApplied]), encoded(ws), encoded(stored))
	if err != nil {
		return err
	}
	return c.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
}

// replaceAsArgoCD replaces the object, as "kubectl replace" does.
func replaceAsArgoCD(ctx context.Context, c client.Client, ws *unstructured.Unstructured) error {
	stored := workspaceNamed(ws.GetName())
	if err := c.Get(ctx, client.ObjectKeyFromObject(ws), stored); err != nil {
		return err
	}
	ws.SetResourceVersion(stored.GetResourceVersion())
	return c.Update(ctx, ws)
}

func remember(ws *unstructured.Unstructured) {
	raw := encoded(ws)
	annotations := ws.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[lastApplied] = string(raw)
	ws.SetAnnotations(annotations)
}

func encoded(ws *unstructured.Unstructured) []byte {
	GinkgoHelper()
	raw, err := json.Marshal(ws)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// expectNotRestored expects the Event on the LogicalCluster of this workspace that says that parts of a new Workspace were not stored.
func (p place) expectNotRestored(ctx context.Context, name string, parts ...string) {
	GinkgoHelper()
	about := []gomegatypes.GomegaMatcher{ContainSubstring("workspace %q with ", name), ContainSubstring("they are not stored")}
	for _, part := range parts {
		about = append(about, ContainSubstring(part))
	}
	Eventually(ctx, func(g Gomega) {
		g.Expect(p.eventsOfCluster(ctx, g)).To(ContainElement(And(HaveField("Reason", "NotRestored"), HaveField("Message", SatisfyAll(about...)))))
	}).Should(Succeed())
}

// eventsOfCluster returns the Events on the LogicalCluster of this workspace.
func (p place) eventsOfCluster(ctx context.Context, g Gomega) []corev1.Event {
	GinkgoHelper()
	list := &corev1.EventList{}
	g.Expect(p.Client().List(ctx, list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
	var events []corev1.Event
	for i := range list.Items {
		if list.Items[i].InvolvedObject.Kind == "LogicalCluster" {
			events = append(events, list.Items[i])
		}
	}
	return events
}
