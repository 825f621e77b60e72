//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/browser"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
	"warrantgate.dev/internal/message"
)

// An operator can run an audit at any time by the command, with the permissions of serve or of an administrator.
var _ = Describe("warrantgate audit", Ordered, func() {
	var (
		w       *world
		s       story
		command auditCommand
		worker  *unstructured.Unstructured
		server  cloudsigmatest.Server
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n"})
		s = w.begin(ctx)
		user, err := w.api.User(kubetest.WarrantgateUser)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := w.api.KubeconfigFile("auditor", user)
		Expect(err).NotTo(HaveOccurred())
		command = auditCommand{world: w, args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + w.gate.ConfigFile(), "--rate=100",
			"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName,
		}}
		worker = s.createMachine(ctx, "worker")
		server = w.cloud.AddServer(region, s.user, "worker")
		Expect(w.setInstanceID(ctx, worker, server.UUID)).To(Succeed())
	}, NodeTimeout(setupTimeout))

	It("finds no problem, and exits with 0", func(ctx SpecContext) {
		got := command.run(ctx)
		Expect(got).To(Equal(audited{
			out:   "NAMESPACE   OBJECT   REASON   INSTANCE   MESSAGE\n",
			notes: got.notes,
		}))
		Expect(got.notes).To(MatchRegexp(`^machines: 1, accounts: 1, requests to the cloud: \d, findings: 0\n$`))
		Expect(command.run(ctx, "-o=json").out).To(BeEmpty())
	}, SpecTimeout(timeout))

	When("there are problems", Ordered, func() {
		var (
			want     []finding
			versions map[string]string
			servers  []cloudsigmatest.Server
		)
		BeforeAll(func(ctx SpecContext) {
			own := fmt.Sprintf("user %q in region %q", s.user.Email, region)
			// The machine was correct once. Its server now belongs to another user, and another server was created for the machine.
			elsewhere := w.cloud.AddServer(region, w.cloud.AddUser("earlier@example.com"), "worker", cloudsigmatest.WithUUID(server.UUID))
			spare := w.cloud.AddServer(region, s.user, "worker", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, string(worker.GetUID())))
			orphan := w.cloud.AddServer(region, s.user, "worker-0", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "6f9619ff-8b86-4011-b42d-00c04fc964ff"))
			want = []finding{
				{"CloudSigmaCluster", s.namespace, clusterName, "InstanceOrphaned", orphan.UUID, s.user.Email, region, fmt.Sprintf(
					"instance %s (%q) of %s was created for a machine that does not exist here; delete it if nothing else uses it", orphan.UUID, "worker-0", own), nil},
				{"CloudSigmaMachine", s.namespace, "worker", "InstanceNotOwned", elsewhere.UUID, s.user.Email, region, fmt.Sprintf(
					"instance %s exists, but is not one of %s, which cluster %q acts as; the user's own instance for this machine is %s; "+
						"clear the field, so that the provider adopts an instance of the user or creates one", elsewhere.UUID, own, clusterName, spare.UUID), nil},
			}
			versions, servers = w.versions(ctx, machineKind, clusterKind), w.cloud.Servers()
		})

		It("prints them as JSON, one object a line, and exits with 1", func(ctx SpecContext) {
			got := command.run(ctx, "-o", "json")
			Expect(got.status).To(Equal(1))
			Expect(got.findings()).To(Equal(want))
		}, SpecTimeout(timeout))

		It("prints them as a page that a browser shows, and as Markdown, with the texts of tenants as texts", func(ctx SpecContext) {
			const markup = `<img/src=//127.0.0.1/x/onerror=document.title='owned'>`
			hostile := w.cloud.AddServer(region, s.user, "\u202e</td><script>document.title='owned'</script> `|` [x](javascript:alert(1))\n- [x] done",
				cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "0d3f6a52-8b0e-4c6f-9a51-7d1f5c1e2b44"))
			theirs := newCluster(w.namespace(ctx), clusterName, markup+"|`@example.com") // nobody may impersonate this user
			Expect(w.client.Create(ctx, theirs)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(w.client.Delete(ctx, theirs)).To(Succeed())
				w.cloud.RemoveServer(hostile.UUID)
			})
			all := command.run(ctx, "-o=json").findings()
			Expect(all).To(HaveLen(4))
			var rows, orphans []string
			for _, f := range all {
				row := strings.Join([]string{f.Namespace, f.Kind + "/" + f.Name, f.Reason, f.Instance, message.Printable(f.Message)}, "\t")
				rows = append(rows, row)
				if f.Reason == "InstanceOrphaned" {
					orphans = append(orphans, row)
				}
			}
			Expect(orphans).To(HaveLen(2), "the most frequent reason")
			printed := command.run(ctx, "-o=html")
			Expect(printed.status).To(Equal(2))
			page := filepath.Join(GinkgoT().TempDir(), "audit.html")
			Expect(os.WriteFile(page, []byte(printed.out), 0o600)).To(Succeed())

			By("without scripts")
			b, err := browser.Start(ctx, GinkgoT().TempDir())
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(b.Stop)
			Expect(b.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)).To(Succeed())
			Expect(b.Open("file://" + page)).To(Succeed())
			evaluate := func(expression string) (value any, err error) { return value, b.Evaluate(expression, &value) }
			shown := func() (rows []string, err error) {
				return rows, b.Evaluate(`[...document.querySelectorAll("#findings tbody tr")].filter(r => r.checkVisibility()).map(r => r.innerText)`, &rows)
			}
			Expect(shown()).To(Equal(rows))
			Expect(evaluate("document.body.innerText")).To(And(ContainSubstring("Not everything could be checked: "), ContainSubstring(markup)))
			Expect(b.Nodes()).To(ContainElements(
				browser.Node{Role: "heading", Name: "warrantgate audit"}, browser.Node{Role: "region", Name: "Findings by reason"},
				browser.Node{Role: "combobox", Name: "Reason"}, browser.Node{Role: "combobox", Name: "Namespace"},
				browser.Node{Role: "StaticText", Name: "A server was made for a machine that does not exist. Delete the server if nothing else uses it."},
				browser.Node{Role: "StaticText", Name: "4"},
			))

			By("filtering with the keyboard")
			Expect(evaluate(`document.querySelector("#reason").focus(), true`)).To(BeTrue())
			Expect(b.Press("ArrowDown", 40)).To(Succeed())
			Eventually(shown).Should(Equal(orphans))
			Expect(evaluate(`document.querySelector("[type=reset]").click(), true`)).To(BeTrue())
			Eventually(shown).Should(Equal(rows))
			Expect(evaluate(`document.querySelector("#namespace").focus(), true`)).To(BeTrue())
			Expect(b.Press("End", 35)).To(Succeed()) // the namespace with the fewest findings
			Eventually(shown).Should(HaveExactElements(HavePrefix(theirs.GetNamespace() + "\t")))

			By("in dark colors")
			color := func() (any, error) { return evaluate("getComputedStyle(document.body).color") }
			light, err := color()
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Call("Emulation.setEmulatedMedia", map[string]any{
				"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}},
			}, nil)).To(Succeed())
			Eventually(color).ShouldNot(Equal(light))

			By("with scripts, of which none runs, and without a request")
			Expect(b.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)).To(Succeed())
			Expect(b.Open("file://" + page)).To(Succeed())
			Expect(evaluate("document.title")).To(Equal("warrantgate audit"))
			Expect(evaluate(`document.querySelectorAll("script, img, a, [href], [src], #findings td > :not(code)").length`)).To(BeZero())
			Expect(b.Requests()).To(Equal([]string{"file://" + page}))
			for _, element := range []string{"img", "script", "iframe"} {
				Expect(evaluate(`new Promise(found => {
					document.addEventListener("securitypolicyviolation", e => found(e.effectiveDirective))
					document.body.append(Object.assign(document.createElement("`+element+`"), {src: "http://127.0.0.1/x"}))
				})`)).To(BeElementOf("img-src", "script-src-elem", "frame-src"), "the policy of the page forbids it")
			}

			By("as Markdown, in code spans")
			ticket := command.run(ctx, "-o=markdown")
			Expect(ticket.status).To(Equal(2))
			for _, f := range all {
				Expect(ticket.out).To(ContainSubstring(": `" + strings.NewReplacer("`", `\x60`, "|", `\x7c`).Replace(message.Printable(f.Message)) + "`\n"))
			}
			outside := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(ticket.out, "")
			Expect(outside).NotTo(Or(ContainSubstring("<"), ContainSubstring("javascript"), ContainSubstring("[x]"), ContainSubstring("`")))
			Expect(strings.Count(outside, "\n- [ ] ")).To(Equal(len(all)))
		}, SpecTimeout(timeout))

		It("reports only what is wrong in the namespace of --namespace", func(ctx SpecContext) {
			got := command.run(ctx, "-o", "json", "--namespace="+s.namespace)
			Expect(got.status).To(Equal(1))
			Expect(got.findings()).To(Equal(want))
			elsewhere := command.run(ctx, "--namespace="+w.namespace(ctx))
			Expect(elsewhere.status).To(BeZero())
			Expect(elsewhere.notes).To(HaveSuffix("accounts: 0, requests to the cloud: 0, findings: 0\n"))
		}, SpecTimeout(timeout))

		It("exits with 2 if an account could not be audited, and prints the findings of the others", func(ctx SpecContext) {
			stranger := w.cloud.AddUser("stranger@example.com")
			theirs := newCluster(w.namespace(ctx), clusterName, stranger.Email)
			Expect(w.client.Create(ctx, theirs)).To(Succeed())
			got := command.run(ctx, "-o", "json")
			Expect(w.client.Delete(ctx, theirs)).To(Succeed())
			Expect(got.status).To(Equal(2))
			Expect(got.findings()).To(ContainElements(want))
			Expect(got.findings()).To(ContainElement(And(
				HaveField("Kind", "CloudSigmaCluster"), HaveField("Namespace", theirs.GetNamespace()), HaveField("Reason", "OwnershipUnknown"),
				HaveField("Message", ContainSubstring("the identity provider does not permit warrantgate to impersonate this user")))))
			Expect(got.notes).To(HavePrefix(`warrantgate: instances of user "stranger@example.com" in region "next": UserNotImpersonable: `))
		}, SpecTimeout(timeout))

		It("changes nothing", func(ctx SpecContext) {
			Expect(w.versions(ctx, machineKind, clusterKind)).To(Equal(versions))
			Expect(w.cloud.Servers()).To(Equal(servers))
			for _, object := range []*unstructured.Unstructured{worker, newObject(clusterKind, s.namespace, clusterName)} {
				Expect(w.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				Expect(w.eventsOn(ctx, object)).To(BeEmpty(), "the command prints its findings, and writes no Events")
			}
		}, SpecTimeout(timeout))
	})
})

// auditCommand is the command with arguments.
type auditCommand struct {
	*world
	args []string
}

// audited is the output of the command, and its exit status.
type audited struct {
	out, notes string
	status     int
}

// run runs the command, which must never print a secret.
func (c auditCommand) run(ctx context.Context, more ...string) audited {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, slices.Concat([]string{"audit"}, c.args, more)...)
	for _, secret := range c.cloud.Secrets() {
		Expect(strings.Contains(printed.Stdout+printed.Stderr, secret)).To(BeFalse(), "it printed a secret")
	}
	return audited{out: printed.Stdout, notes: printed.Stderr, status: printed.Status}
}

// finding is one line of the output in JSON. It has no other fields.
type finding struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Reason    string   `json:"reason"`
	Instance  string   `json:"instance"`
	User      string   `json:"user"`
	Region    string   `json:"region"`
	Message   string   `json:"message"`
	Others    []string `json:"others"`
}

func (a audited) findings() []finding {
	GinkgoHelper()
	decoder := json.NewDecoder(strings.NewReader(a.out))
	decoder.DisallowUnknownFields()
	var all []finding
	for decoder.More() {
		var f finding
		Expect(decoder.Decode(&f)).To(Succeed())
		all = append(all, f)
	}
	Expect(strings.Count(a.out, "\n")).To(Equal(len(all)), "one object a line")
	return all
}
