//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
	"warrantgate.dev/e2e/suites/attacks/model"
)

const (
	// modelWorkers is the number of sequences that run at the same time.
	modelWorkers = 3
	// modelTimeout limits the run with 50,000 writes of "make fuzz".
	modelTimeout = time.Hour
)

// defaultWrites is the number of writes on a kube-apiserver. On kcp there are a tenth of them.
func defaultWrites() int { return volume.Of(900, 5000) }

// Random sequences of writes find cases that no other spec contains. SEED=… repeats the sequences of an earlier run, WRITES=… sets
// their number.
var _ = Describe("random sequences of writes", func() {
	It("break no promise on a kube-apiserver", func(ctx SpecContext) {
		w := kube(ctx)
		suite.BriefFirstClaims(ctx, w.admin) // many of them are denied
		DeferCleanup(w.install)
		var worlds []*model.World
		for i := range modelWorkers {
			worlds = append(worlds, w.modelWorld(ctx, fmt.Sprintf("w%d", i)))
		}
		writes, err := model.Writes(defaultWrites())
		Expect(err).NotTo(HaveOccurred())
		expectPromisesKept(model.Run(ctx, model.Options{Writes: writes, Admitted: 0.2, Restart: func(ctx context.Context) error {
			return w.gate.Restart(ctx)
		}}, worlds...))
	}, SpecTimeout(modelTimeout))

	It("break no promise on a kcp", func(ctx SpecContext) {
		w := kcp(ctx)
		writes, err := model.Writes(defaultWrites())
		Expect(err).NotTo(HaveOccurred())
		expectPromisesKept(model.Run(ctx, model.Options{Writes: writes / 10, Admitted: 0.2, Restart: func(ctx context.Context) error {
			return w.gate.Restart(ctx)
		}}, w.modelWorld(ctx)))
	}, SpecTimeout(modelTimeout))
})

func expectPromisesKept(result model.Result, err error) {
	GinkgoHelper()
	GinkgoWriter.Println(result)
	AddReportEntry("writes", result.String(), ReportEntryVisibilityAlways)
	Expect(err).NotTo(HaveOccurred())
	for _, failure := range result.Failures {
		Fail(failure + "\nSEED=" + fmt.Sprint(result.Seed) + " repeats the sequences")
	}
}

// modelWorld has two editors with different users in one namespace, one editor in another, and the provider's controller.
func (w *kubeWorld) modelWorld(ctx context.Context, name string) *model.World {
	GinkgoHelper()
	email := func(who string) string { return who + "-" + name + "@example.com" }
	users := map[string]cloudsigmatest.User{}
	for _, who := range []string{"anna", "arno", "bert"} {
		users[email(who)] = w.user(email(who))
	}
	first, second := w.namespace(ctx), w.namespace(ctx)
	world := &model.World{
		Regions: []string{region, "zrh"}, MachineVersion: "v1alpha4", UserRefs: true,
		Places: []model.Place{
			{Namespace: first, Admin: w.admin, Users: []string{email("anna"), email("arno")}},
			{Namespace: second, Admin: w.admin, Users: []string{email("bert")}},
		},
		AddServers: func(sequence string) ([]model.Server, func()) { return addServers(w.cloud, users, sequence) },
		Reported:   w.reportedSoon,
	}
	for i := range world.Places {
		for _, user := range world.Places[i].Users {
			world.Places[i].UserIDs = append(world.Places[i].UserIDs, users[user].UUID)
		}
	}
	tenantKinds := []schema.GroupVersionKind{
		model.Machine, model.Machine, model.Machine, model.Cluster, model.Cluster, model.OwnerMachine, model.Secret, model.KdcCluster,
	}
	for place, editors := range [][][]string{{{email("anna")}, {email("arno"), email("anna")}}, {{email("bert")}}} {
		for _, may := range editors {
			editor := w.editor(ctx, world.Places[place].Namespace)
			w.permit(ctx, editor.name, may...)
			world.Actors = append(world.Actors, &model.Actor{
				Name: editor.name, Client: suite.UnstructuredClient(editor.config), Place: place, Kinds: tenantKinds, May: may,
			})
		}
	}
	controller := w.controller(ctx, "capcs-"+name)
	for place := range world.Places {
		world.Actors = append(world.Actors, &model.Actor{
			Name: "controller", Client: controller, Place: place, Kinds: []schema.GroupVersionKind{model.Machine},
		})
	}
	return world
}

// reportedSoon reports whether the audit reports a machine, also if warrantgate is restarted again and again, as other sequences do meanwhile.
func (w *kubeWorld) reportedSoon(ctx context.Context, namespace, machine string) bool {
	const soon = 2 * time.Minute
	return wait.PollUntilContextTimeout(ctx, time.Second, soon, true, func(ctx context.Context) (bool, error) {
		return len(w.auditEvents(ctx, namespace, machine)) > 0, nil
	}) == nil
}

// controller is the service account of a provider's controller, which may write machines in all namespaces.
func (w *kubeWorld) controller(ctx context.Context, name string) client.Client {
	GinkgoHelper()
	config, err := w.api.ServiceAccount(ctx, "capcs-system", name)
	Expect(err).NotTo(HaveOccurred())
	Expect(access.Grant(ctx, w.admin, kcptest.ServiceAccountSubject("capcs-system", name), rbacv1.PolicyRule{
		APIGroups: []string{"infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
	})).To(Succeed())
	return suite.UnstructuredClient(config)
}

// addServers adds servers of each user, in two regions. Those of the first two users have the names of machines of the sequence. One
// is shared with all users.
func addServers(cloud *cloudsigmatest.Cloud, users map[string]cloudsigmatest.User, sequence string) ([]model.Server, func()) {
	var servers []model.Server
	add := func(in string, owner cloudsigmatest.User, label, name string, options ...cloudsigmatest.ServerOption) {
		server := cloud.AddServer(in, owner, name, options...)
		servers = append(servers, model.Server{UUID: server.UUID, Owner: owner.Email, Region: in, Name: name, Label: label + " of " + owner.Email})
	}
	everybody := slices.Sorted(maps.Keys(users))
	for _, email := range everybody {
		owner := users[email]
		add(region, owner, "first", sequence+"-cloudsigmamachine-0")
		add(region, owner, "second", sequence+"-cloudsigmamachine-1")
		add(region, owner, "shared", sequence+"-shared-"+owner.UUID, cloudsigmatest.SharedWith(everybody...))
		add("zrh", owner, "far", sequence+"-far-"+owner.UUID)
	}
	return servers, func() {
		for _, server := range servers {
			cloud.RemoveServer(server.UUID)
		}
	}
}

// modelWorld has two workspaces that bind the provider's kinds. The owner of each may name one user, and impersonates users that
// look like the owner of the other workspace.
func (w *kcpWorld) modelWorld(ctx context.Context) *model.World {
	GinkgoHelper()
	owners := []owner{w.owner(ctx, "anna"), w.owner(ctx, "bert")}
	users := map[string]cloudsigmatest.User{}
	world := &model.World{Regions: []string{region, "zrh"}, MachineVersion: "v1alpha4", Events: true}
	for _, who := range owners {
		email := who.name + "@example.com"
		users[email] = w.user(email)
		w.permit(ctx, who.name, email)
		world.Places = append(world.Places, model.Place{
			Namespace: who.namespace, Cluster: who.cluster, Admin: suite.UnstructuredClient(who.admin), Users: []string{email}, UserIDs: []string{users[email].UUID},
		})
		who.allow(ctx, user.AllAuthenticated) // so that only the gates deny writes of impersonated users
	}
	for place, who := range owners {
		other := owners[1-place]
		kinds := []schema.GroupVersionKind{model.Machine, model.Machine, model.Cluster}
		for name, c := range map[string]client.Client{
			"owner of place": suite.UnstructuredClient(who.config),
			"other owner":    who.as(other.name, []string{user.AllAuthenticated, tenantsGroup}, nil),
			"warrant of other owner": who.as("anybody", []string{user.AllAuthenticated}, map[string][]string{
				"authorization.kcp.io/warrant": {fmt.Sprintf(`{"user":%q,"groups":["system:authenticated",%q]}`, other.name, tenantsGroup)},
			}),
			"service account of elsewhere": who.as("system:serviceaccount:default:bot", []string{user.AllAuthenticated, "system:serviceaccounts"},
				map[string][]string{"authentication.kcp.io/cluster-name": {other.cluster}}),
		} {
			actor := &model.Actor{Name: fmt.Sprintf("%s in %d", name, place), Client: c, Place: place, Kinds: kinds}
			if name == "owner of place" {
				actor.May = world.Places[place].Users
				world.Actors = append(world.Actors, actor, actor, actor) // most writes
			}
			world.Actors = append(world.Actors, actor)
		}
	}
	slices.SortFunc(world.Actors, func(a, b *model.Actor) int { return strings.Compare(a.Name, b.Name) }) // in a stable order for the random draws
	world.AddServers = func(sequence string) ([]model.Server, func()) { return addServers(w.cloud, users, sequence) }
	return world
}
