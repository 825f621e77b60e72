//go:build e2e

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The fields that name a server.
const (
	instanceIDPath = "status.instanceID"
	providerIDPath = "spec.providerID"
)

// way is a kind of write that names a server.
type way struct {
	field   string
	creates bool
}

var creation, update, statusUpdate = way{providerIDPath, true}, way{providerIDPath, false}, way{instanceIDPath, false}

// The unit test TestVerdicts makes claims of all kinds by all kinds of writes. The other files have the verdicts during failures, and writes that
// need no verdict.
var _ = Describe("The verdict on a machine", sharing, func() {
	own := func(s story) string { return s.server("own").UUID }
	others := func(s story) string { return s.othersServer("others").UUID }
	DescribeTable("is", func(ctx SpecContext, reason string, by way, id func(s story) string) {
		s := begin(ctx)
		owner := s.createOwner(ctx, "machine")
		machine := newMachine(s.namespace, "machine", clusterName, ownedBy(owner))
		subject := owner // Events about an object that was not created are on its owner
		if !by.creates {
			Expect(s.client.Create(ctx, machine)).To(Succeed())
			subject = machine
		}
		value, outcome := valueOf(by.field, id(s)), map[string]string{"reason": reason, "decision": "denied"}
		if reason == "Owned" {
			outcome["decision"] = "allowed"
		}
		all, matching := s.admissions(ctx, nil), s.admissions(ctx, outcome)

		warned, recorder := s.warned()
		var err error
		if by.creates {
			with(by.field, value)(machine)
			err = warned.Create(ctx, machine)
		} else {
			err = write(ctx, warned, machine, by.field, value)
		}
		Expect(s.admissions(ctx, nil)).To(Equal(all + 1))
		Expect(s.admissions(ctx, outcome)).To(Equal(matching + 1))
		Expect(recorder.TakeWarnings()).To(BeEmpty())
		if reason == "Owned" {
			Expect(err).NotTo(HaveOccurred())
			Expect(s.holds(ctx, machine, by.field)).To(Equal(value))
			Expect(s.finalEvents(ctx)).To(BeEmpty())
			return
		}
		expectDenial(err, reason, by.field)
		Expect(err).To(MatchError(essentials(s, by.field, value, reason)))
		Expect(err).NotTo(MatchError(ContainSubstring(othersEmail)))
		if by.creates {
			Expect(apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(machine), machine))).To(BeTrue())
		} else {
			Expect(s.holds(ctx, machine, by.field)).To(BeEmpty())
		}
		Expect(s.finalEvents(ctx)).To(HaveExactElements(onceAbout(subject, reason, "Denied: ")))
	},
		Entry("an admission of the user's own server", "Owned", creation, own, SpecTimeout(timeout)),
		Entry("a denial of another user's server, on a creation", "InstanceNotOwned", creation, others, SpecTimeout(timeout)),
		Entry("a denial of another user's server, on an update", "InstanceNotOwned", update, others, SpecTimeout(timeout)),
		Entry("a denial of another user's server, on a status update", "InstanceNotOwned", statusUpdate, others, SpecTimeout(timeout)),
		Entry("a denial of a server that does not exist", "InstanceNotFound", statusUpdate, func(story) string { return uuid.NewString() }, SpecTimeout(timeout)),
		Entry("a denial of what is no provider ID", "ProviderIDInvalid", update, func(story) string { return "soon" }, SpecTimeout(timeout)),
		Entry("a denial of what is no ID", "InstanceIDInvalid", statusUpdate, func(story) string { return "soon" }, SpecTimeout(timeout)),
	)

	It("is a denial as InstanceNotOwned for a server that another user shares with the user", func(ctx SpecContext) {
		s := begin(ctx)
		id := s.cloud.AddServer(region, s.cloud.AddUser(othersEmail), "shared", cloudsigmatest.SharedWith(s.user.Email)).UUID
		machine := s.createMachine(ctx, "machine")
		for _, field := range []string{instanceIDPath, providerIDPath} {
			err := s.set(ctx, machine, field, valueOf(field, id))
			expectDenial(err, "InstanceNotOwned", field)
			Expect(err).To(MatchError(And(ContainSubstring("the cloud answered 200, owned by another user"), Not(ContainSubstring(othersEmail)))))
			Expect(s.holds(ctx, machine, field)).To(BeEmpty())
		}
	}, SpecTimeout(timeout))
})

// onceAbout matches the Event of one verdict, whose message begins with that text.
func onceAbout(subject *unstructured.Unstructured, reason, begin string) OmegaMatcher {
	return And(
		HaveField("InvolvedObject.UID", subject.GetUID()),
		HaveField("InvolvedObject.Name", subject.GetName()),
		HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason), HaveField("Count", BeEquivalentTo(1)),
		HaveField("Message", And(HavePrefix(begin), Not(ContainSubstring("request id")), Not(ContainSubstring(othersEmail)))),
	)
}

// finalEvents are the Events of the story that are about verdicts. Events are written in order, so it waits for one of a last machine.
func (s story) finalEvents(ctx context.Context) ([]corev1.Event, error) {
	GinkgoHelper()
	last := s.createMachine(ctx, "last")
	_ = s.set(ctx, last, instanceIDPath, "no ID") // with a warning or a denial, without a request to the cloud
	Eventually(s.eventsOn).WithContext(ctx).WithArguments(last).ShouldNot(BeEmpty())
	events, err := s.verdictEvents(ctx)
	return slices.DeleteFunc(events, func(event corev1.Event) bool { return event.InvolvedObject.UID == last.GetUID() }), err
}

// expectDenial checks the fields that a controller uses: code, reason and cause.
func expectDenial(err error, reason, field string) {
	GinkgoHelper()
	Expect(err).To(MatchError(ContainSubstring(`.machine.warrantgate.dev" denied the request: `)))
	var denial *apierrors.StatusError
	Expect(errors.As(err, &denial)).To(BeTrue())
	code, word := http.StatusForbidden, metav1.StatusReasonForbidden
	switch reason {
	case "OwnershipUnknown":
		code, word = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case "InstanceIDInvalid", "ProviderIDInvalid":
		code, word = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	Expect(denial.Status().Code).To(BeEquivalentTo(code))
	Expect(denial.Status().Reason).To(Equal(word))
	cause, found := apierrors.StatusCause(err, metav1.CauseType(reason))
	Expect(found).To(BeTrue(), "no cause %q in: %v", reason, err)
	Expect(cause.Field).To(Equal(field))
}

// essentials are the texts that a denial must contain for the user.
func essentials(s story, field, value, reason string) OmegaMatcher {
	ofUser := fmt.Sprintf("of user %q (%s), which cluster %q acts as", s.user.Email, s.user.UUID, clusterName)
	const advice = "clear the field, so that the provider adopts an instance of the user or creates one"
	texts := map[string][]string{
		"InstanceNotOwned": {
			`this instance of region "next" exists, but is not one ` + ofUser, "the cloud answered 403 permission, request id 00000000-0000-4000-8000-", advice,
		},
		"InstanceNotFound": {
			`there is no such instance in region "next" ` + ofUser, "the cloud answered 404 not found, request id 00000000-0000-4000-8000-", advice,
		},
		"ProviderIDInvalid": {fmt.Sprintf(`%q is not a provider ID of CloudSigma: it has to be "cloudsigma://" and the UUID of a server`, value)},
		"InstanceIDInvalid": {fmt.Sprintf(`%q is not an instance ID: it has to be the UUID of a server`, value)},
	}
	matchers := []OmegaMatcher{ContainSubstring(`%s %q of CloudSigmaMachine "machine" of namespace %q: `, field, value, s.namespace)}
	for _, text := range texts[reason] {
		matchers = append(matchers, ContainSubstring("%s", text))
	}
	return And(matchers...)
}

// othersEmail is the user whose servers the users of stories do not own.
const othersEmail = "somebody-else@example.com"

// server creates a server of the story's user.
func (s story) server(name string) cloudsigmatest.Server {
	return s.cloud.AddServer(region, s.user, name)
}

// othersServer creates a server of another user.
func (s story) othersServer(name string) cloudsigmatest.Server {
	return s.cloud.AddServer(region, s.cloud.AddUser(othersEmail), name)
}

// giveAway makes a server that of another user.
func (s story) giveAway(server cloudsigmatest.Server) {
	s.cloud.AddServer(region, s.cloud.AddUser(othersEmail), server.Name, cloudsigmatest.WithUUID(server.UUID))
}

// valueOf is the value of a field for a server.
func valueOf(field, id string) string {
	if strings.HasSuffix(field, "providerID") {
		return "cloudsigma://" + id
	}
	return id
}

// createOwner creates the Machine of Cluster API that a provider's machine is made for.
func (s story) createOwner(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	owner := newObject(capiMachineKind, s.namespace, name)
	owner.SetLabels(inCluster(clusterName)) // as Cluster API does
	Expect(s.client.Create(ctx, owner)).To(Succeed())
	return owner
}

// capiMachineKind is Cluster API's own kind of machines.
var capiMachineKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}

func ownedBy(owner *unstructured.Unstructured) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		}})
	}
}

// write sets one field of a machine, by a merge patch of the resource that serves it.
func write(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string, options ...client.PatchOption) error {
	changed := machine.DeepCopy()
	with(field, value)(changed)
	return patch(ctx, c, machine, changed, field, options...)
}

// remove removes one field of a machine.
func remove(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field string) error {
	GinkgoHelper()
	// Compares with the stored object, because a merge patch contains only the differences.
	Expect(c.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
	changed := machine.DeepCopy()
	unstructured.RemoveNestedField(changed.Object, strings.Split(field, ".")...)
	return patch(ctx, c, machine, changed, field)
}

func patch(ctx context.Context, c client.Client, from, to *unstructured.Unstructured, field string, options ...client.PatchOption) error {
	difference := client.MergeFrom(from.DeepCopy())
	if !strings.HasPrefix(field, "status.") {
		return c.Patch(ctx, to, difference, options...)
	}
	var ofStatus []client.SubResourcePatchOption
	for _, option := range options {
		ofStatus = append(ofStatus, &client.SubResourcePatchOptions{PatchOptions: *(&client.PatchOptions{}).ApplyOptions([]client.PatchOption{option})})
	}
	return c.Status().Patch(ctx, to, difference, ofStatus...)
}

// holds is the value of a field in the stored object, "" if there is none.
func (w *world) holds(ctx context.Context, machine *unstructured.Unstructured, field string) string {
	GinkgoHelper()
	current := newObject(machine.GroupVersionKind(), machine.GetNamespace(), machine.GetName())
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(machine), current)).To(Succeed())
	value, _, err := unstructured.NestedString(current.Object, strings.Split(field, ".")...)
	Expect(err).NotTo(HaveOccurred())
	return value
}

// admissions is the number of verdicts on machines, for further labels of the metric.
func (w *world) admissions(ctx context.Context, labels map[string]string) float64 {
	GinkgoHelper()
	all := map[string]string{"gate": "machine-ownership"}
	maps.Copy(all, labels)
	count, err := w.gate.Metric(ctx, "warrantgate_admissions_total", all)
	Expect(err).NotTo(HaveOccurred())
	return count
}

// verdictEvents are the Events of the story that are about verdicts. Those of the audit may come at any time.
func (s story) verdictEvents(ctx context.Context) ([]corev1.Event, error) {
	var all corev1.EventList
	if err := s.client.List(ctx, &all, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	var events []corev1.Event
	for i := range all.Items {
		if !strings.HasPrefix(all.Items[i].Message, "Audit: ") {
			events = append(events, all.Items[i])
		}
	}
	return events, nil
}
