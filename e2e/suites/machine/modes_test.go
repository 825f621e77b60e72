//go:build e2e

package machine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// In mode Warn nothing is denied, not even while warrantgate is down.
var _ = Describe("In the mode Warn the verdict on a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "machine: {mode: Warn}\naudit: {mode: Off}\n"})
	}, NodeTimeout(setupTimeout))

	everyVerdict(func(context.Context) *world { return w }, policy{warn: true})

	It("is admitted while warrantgate does not run", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "machine")
		Expect(w.gate.Stop()).To(Succeed())
		id := s.othersServer("others").UUID
		Expect(write(ctx, s.client, machine, instanceIDPath, id)).To(Succeed())
		Expect(s.holds(ctx, machine, instanceIDPath)).To(Equal(id))
		Expect(w.gate.Start(ctx)).To(Succeed())
	}, SpecTimeout(timeout))
})

// Operators who prefer a wrong machine to none that starts can admit requests while the owner is not known. All others are decided as before.
var _ = Describe("With unknown: Admit, the verdict on a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: "machine: {unknown: Admit}\naudit: {mode: Off}\n",
			args:          []string{"--log-level=debug"}, // otherwise there is no line about an admitted request
		})
	}, NodeTimeout(setupTimeout))

	everyVerdict(func(context.Context) *world { return w }, policy{admitUnknown: true})

	DescribeTable("is an admission with a warning and an Event while there is no answer, and a denial again by itself",
		func(ctx SpecContext, operation cloudsigmatest.Operation, fault cloudsigmatest.Fault, advice string) {
			s := w.begin(ctx)
			machine := s.createMachine(ctx, "node")
			foreign := w.cloud.AddServer(region, w.user("someone-else@example.com"), "node").UUID
			own := w.cloud.AddServer(region, s.user, "node").UUID
			id := foreign
			failure := w.cloud.Fail(fault, 0, operation)
			DeferCleanup(failure.Release)
			w.forgetTokens(s.user)
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, id)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(ConsistOf(And(
				HavePrefix("OwnershipUnknown: status.instanceID "), ContainSubstring(id), ContainSubstring(s.user.Email), ContainSubstring(advice))))
			Expect(s.instanceID(ctx, machine)).To(Equal(id))
			Eventually(s.eventsAbout).WithContext(ctx).WithArguments(machine).Should(ConsistOf(And(
				HavePrefix("OwnershipUnknown: Admitted with a warning: "), ContainSubstring(id), HaveSuffix(advice))))

			By("requests that can be decided without the cloud are denied")
			expectDenial(s.setInstanceID(ctx, machine, "no-uuid"), "InstanceIDInvalid", instanceIDPath)

			By("the admission is not cached")
			failure.Release()
			Expect(s.setInstanceID(ctx, machine, "")).To(Succeed())
			Eventually(func() error {
				defer func() { Expect(s.setInstanceID(ctx, machine, "")).To(Succeed()) }()
				return s.setInstanceID(ctx, machine, foreign)
			}).WithContext(ctx).Should(MatchError(ContainSubstring("exists, but is not one of user")))
			expectNotOwned(s.setInstanceID(ctx, machine, foreign))
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(BeEmpty())
		},
		Entry("when the request for the server is not answered", cloudsigmatest.GetServer, cloudsigmatest.Hang(), noResponse, SpecTimeout(timeout)),
		Entry("when the identity provider rejects the client", cloudsigmatest.ClientCredentials, oauthError(http.StatusUnauthorized, "invalid_client"),
			renewCredentials, SpecTimeout(timeout)),
	)

	It("is found by the audit later", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "node")
		foreign := w.cloud.AddServer(region, w.user("someone-else@example.com"), "node").UUID
		failure := w.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		Expect(s.setInstanceID(ctx, machine, foreign)).To(Succeed())
		failure.Release()
		output, err := w.runAudit(ctx)
		Expect(err).To(MatchError(ContainSubstring("exit status 1")))
		Expect(strings.Split(output, "\n")).To(ContainElement(And(
			ContainSubstring(s.namespace), ContainSubstring("InstanceNotOwned"), ContainSubstring(foreign))))
	}, SpecTimeout(timeout))

	It("is in the API server's audit log and in warrantgate's log under one decision ID", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "checked")
		name := func(id string) error { return write(ctx, s.client, machine, instanceIDPath, id) }
		Expect(name(s.server("first").UUID)).To(Succeed()) // the annotations of first claims have the name of their webhook
		Expect(name(s.server("own").UUID)).To(Succeed())
		Expect(name(s.othersServer("others").UUID)).NotTo(Succeed())
		failure := s.cloud.Fail(cloudsigmatest.Status(http.StatusBadGateway), 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		Expect(name(s.server("another").UUID)).To(Succeed())

		const prefix = "cloudsigmamachines.machine.warrantgate.dev/"
		var audited []auditv1.Event
		Eventually(func() (_ []auditv1.Event, err error) {
			audited, err = auditEvents(auditLog, s.namespace, "checked", prefix+"decision")
			return audited, err
		}).Should(HaveExactElements(
			HaveField("Annotations", And(HaveKeyWithValue(prefix+"decision", "allowed"), HaveKeyWithValue(prefix+"reason", "Owned"))),
			HaveField("Annotations", And(HaveKeyWithValue(prefix+"decision", "denied"), HaveKeyWithValue(prefix+"reason", "InstanceNotOwned"))),
			HaveField("Annotations", And(HaveKeyWithValue(prefix+"decision", "warned"), HaveKeyWithValue(prefix+"reason", "OwnershipUnknown"))),
		))
		ids := map[string]bool{}
		for i := range audited {
			annotations := audited[i].Annotations
			id := annotations[prefix+"decision-id"]
			Expect(id).NotTo(BeEmpty())
			ids[id] = true
			Expect(verdictsLogged(w, id)).To(HaveExactElements(And(
				HaveKeyWithValue("gate", "machine-ownership"), HaveKeyWithValue("name", "checked"),
				HaveKeyWithValue("decision", annotations[prefix+"decision"]), HaveKeyWithValue("reason", annotations[prefix+"reason"]))))
		}
		Expect(ids).To(HaveLen(3), "each request has its own decision ID")
	}, SpecTimeout(timeout))
})

// auditPolicy records the annotations that admission leaves on writes of machines.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch]
  resources: [{group: infrastructure.cluster.x-k8s.io, resources: [cloudsigmamachines, cloudsigmamachines/status]}]
- level: None
`

// auditEvents are the audited requests about an object that carry an annotation, oldest first.
func auditEvents(file, namespace, name, annotation string) ([]auditv1.Event, error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var events []auditv1.Event
	for line := range bytes.Lines(log) {
		var event auditv1.Event
		if json.Unmarshal(line, &event) != nil {
			continue // the line that is being written
		}
		_, found := event.Annotations[annotation]
		if found && event.ObjectRef != nil && event.ObjectRef.Namespace == namespace && event.ObjectRef.Name == name {
			events = append(events, event)
		}
	}
	return events, nil
}

// verdictsLogged are the lines about verdicts in warrantgate's log that carry a decision ID.
func verdictsLogged(w *world, decisionID string) []map[string]any {
	GinkgoHelper()
	var verdicts []map[string]any
	for line := range bytes.Lines([]byte(w.log())) {
		var entry map[string]any
		Expect(json.Unmarshal(line, &entry)).To(Succeed(), "the log is not JSON: %s", line)
		if entry["msg"] == "verdict" && entry["decisionID"] == decisionID {
			verdicts = append(verdicts, entry)
		}
	}
	return verdicts
}
