//go:build e2e

package workspace_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// The rows of the table "What kcp does itself" in the README of webhooks/workspace. The column of the running version of kcp says what the specs
// of a row expect, so they fail if a kcp does more, or less, than the README says.
var _ = Describe("kcp without warrantgate", Ordered, ContinueOnFailure, func() {
	BeforeAll(removeWarrantgate, NodeTimeout(startTimeout))

	var rows []string
	row := func(does, when string, expect func(ctx SpecContext, does bool)) {
		rows = append(rows, does)
		It(does+", "+when, func(ctx SpecContext) { expect(ctx, bareDoes(does)) }, SpecTimeout(specTimeout))
	}

	const initializes = "initializes workspaces of foreign owners"
	initialized := func(ctx SpecContext, parent place, name, owner string, does bool) {
		GinkgoHelper()
		if does {
			parent.WaitReady(ctx, name)
			return
		}
		parent.expectStuck(ctx, name, deniedBindings(owner))
	}
	const bot, permissions = "system:serviceaccount:default:bot", "gives these owners permissions there"
	row(initializes, "a service account", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		suite.CreateWorkspace(ctx, home.ServiceAccount(ctx, "bot"), "child")
		initialized(ctx, home, "child", bot, does)
	})
	row(initializes, "a service account of root", func(ctx SpecContext, does bool) {
		suite.CreateWorkspace(ctx, root().ServiceAccount(ctx, "lonebot"), "lonebot-child")
		initialized(ctx, root(), "lonebot-child", "system:serviceaccount:default:lonebot", does)
	})
	row(initializes, "a service account that a GitOps tool impersonates", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		home.ServiceAccount(ctx, "bot")
		suite.CreateWorkspace(ctx, home.gitOps(ctx), "child")
		initialized(ctx, home, "child", bot, does)
	})
	row(initializes, "a service account that may bind an API at home", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		config := home.ServiceAccount(ctx, "bot")
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule(exportName))).To(Succeed())
		suite.CreateWorkspace(ctx, config, "child", widgets)
		initialized(ctx, home, "child", bot, does)
	})
	row(initializes, "a service account below a workspace that requires groups", func(ctx SpecContext, does bool) {
		parent := newPlace(ctx)
		config := parent.ServiceAccount(ctx, "bot")
		parent.requireGroups(ctx)
		suite.CreateWorkspace(ctx, config, "child")
		initialized(ctx, parent, "child", bot, does)
	})
	row(initializes, "a user that an administrator impersonates", func(ctx SpecContext, does bool) {
		parent := newPlace(ctx)
		suite.CreateWorkspace(ctx, parent.Impersonated(ctx, "alice"), "child")
		initialized(ctx, parent, "child", "alice", does)
	})

	row(permissions, "and none to a service account of the same name", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		creator := home.ServiceAccount(ctx, "bot")
		suite.CreateWorkspace(ctx, creator, "child", home.emptyType(ctx))
		child := home.WaitReady(ctx, "child")
		namesake, err := kcptest.ServiceAccount(ctx, kcp.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		administrator, other := namesake, creator
		if does {
			administrator, other = creator, namesake
		}
		suite.ExpectAtHome(ctx, administrator, child.Spec.Cluster)
		suite.ExpectLockedOut(ctx, other, child.Spec.Cluster)
	})

	row("drops an administrator's warrant", "which it adds to a request through the virtual workspace of an APIExport", func(ctx SpecContext, does bool) {
		parent := newPlace(ctx)
		held := parent.heldType(ctx)
		through, err := kcp.Through(ctx, kcp.Admin("root"), "tenancy.kcp.io", parent.Cluster, "carol")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			_, err := kcptest.TryCreateWorkspace(ctx, through, "child", held)
			return err
		}).Should(Succeed())
		owner, err := json.Marshal(parent.recordedOwner(ctx, "child"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(owner)).To(ContainSubstring(`"carol"`))
		Expect(strings.Contains(string(owner), "system:kcp:admin")).To(Equal(!does), string(owner))
	})

	row("protects the owner of a Workspace", "against a user who patches it in a loop", func(ctx SpecContext, does bool) {
		unforged := newAttack(ctx).run(ctx, 10) == 0
		Expect(unforged).To(Equal(does))
	})
	row("chooses its logical cluster", "against the name in an annotation that a user creates it with", func(ctx SpecContext, does bool) {
		parent := newPlace(ctx)
		chosen := "chosen" + rand.String(8)
		suite.CreateWorkspace(ctx, parent.User(ctx, "carol"), "child", kcptest.WithAnnotation(clusterAnnotation, chosen))
		changed := parent.WaitReady(ctx, "child").Spec.Cluster != chosen
		Expect(changed).To(Equal(does))
	})
	row("denies updates of a LogicalCluster's owner", "against the owner of a workspace whose initialization does not finish", func(ctx SpecContext, does bool) {
		parent := newPlace(ctx)
		suite.CreateWorkspace(ctx, parent.User(ctx, "mallory"), "child", parent.heldType(ctx))
		cluster := parent.WaitInitializing(ctx, "child").Spec.Cluster
		inside := suite.KCPClient(kcp.User(cluster, "mallory"))
		annotation, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{kcptest.OwnerAnnotation: forgedOwner}}})
		Expect(err).NotTo(HaveOccurred())
		lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
		Eventually(ctx, func() error { return inside.Patch(ctx, lc, client.RawPatch(types.MergePatchType, annotation)) }).Should(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"createdBy":`+forgedOwner+`}}`))
		if err := inside.Patch(ctx, lc, patch); err != nil {
			Expect(err).To(Or(beNotAllowed, WithTransform(apierrors.IsInvalid, BeTrue())))
		}
		kept := parent.recordedOwner(ctx, "child").Username == "mallory"
		Expect(kept).To(Equal(does))
	})

	row("denies a Workspace whose creator may not bind its APIs", "which its type has by default", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		denied := home.expectUnbindable(ctx, home.User(ctx, "carol"), "child", widgets, home)
		Expect(denied).To(Equal(does))
	})

	row("retries once the permission is granted", "to the owner of a stuck workspace", func(ctx SpecContext, does bool) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		carol := authenticationv1.UserInfo{Username: "carol", Groups: []string{"system:authenticated"}}
		home.createAs(ctx, carol, "child", widgets)
		home.expectStuck(ctx, "child", "no permission to bind to export "+home.Path+":"+exportName)
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.User("carol"), kcptest.AccessRule(), kcptest.BindRule(exportName))).To(Succeed())
		if does {
			home.WaitReady(ctx, "child")
			return
		}
		home.createAs(ctx, carol, "later", widgets)
		home.WaitReady(ctx, "later") // so the permission has taken effect
		Expect(kcptest.GetWorkspace(ctx, home.Admin(), "child")).To(HaveField("Status.Phase", corev1alpha1.LogicalClusterPhaseInitializing))
	})

	reportedBug()

	It("does nothing else in the table", func() {
		inReadme := []string{}
		for _, cells := range upstream()[1:] {
			inReadme = append(inReadme, cells[0])
		}
		Expect(inReadme).To(Equal(slices.Compact(rows)))
	})
})

// upstream returns the cells of the table, with the versions of kcp in the first row.
func upstream() [][]string {
	GinkgoHelper()
	readme, err := os.ReadFile("../../../webhooks/workspace/README.md")
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(readme), "\n| kcp itself |")
	Expect(found).To(BeTrue())
	section, _, _ = strings.Cut("| kcp itself |"+section, "\n\n")
	lines := slices.Delete(strings.Split(section, "\n"), 1, 2) // the line that separates the header
	table := make([][]string, 0, len(lines))
	for _, line := range lines {
		table = append(table, strings.Split(strings.Trim(line, "| "), " | "))
	}
	return table
}

// bareDoes returns what the table says about the running version of kcp.
func bareDoes(row string) bool {
	GinkgoHelper()
	release, err := kcp.Release()
	Expect(err).NotTo(HaveOccurred())
	table := upstream()
	column := slices.Index(table[0], release)
	i := slices.IndexFunc(table, func(cells []string) bool { return cells[0] == row })
	Expect([]int{i, column}).To(HaveEach(BeNumerically(">", 0)), "no row %q or no column %q", row, release)
	Expect(table[i][column]).To(Or(Equal("yes"), Equal("no")))
	return table[i][column] == "yes"
}
