//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

var (
	reportKind       = openreports.SchemeGroupVersion.WithKind("Report")
	policyReportKind = schema.GroupVersionKind{Group: "wgpolicyk8s.io", Version: "v1alpha2", Kind: "PolicyReport"}
)

// installReports installs the kind of reports of openreports.io, or the earlier one.
func (w *world) installReports(ctx context.Context, kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crd, err := kubetest.ReportCRD(ctx)
	Expect(err).NotTo(HaveOccurred())
	if kind == policyReportKind { // it has the same fields, without this one
		crd.Name, crd.Spec.Group, crd.Spec.Versions[0].Name = "policyreports."+kind.Group, kind.Group, kind.Version
		crd.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List", Plural: "policyreports", Singular: "policyreport"}
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "source")
	}
	Expect(w.api.ApplyCRDs(ctx, crd)).To(Succeed())
	return crd
}

// storedReport returns the report of a namespace.
func (w *world) storedReport(ctx context.Context, kind schema.GroupVersionKind, namespace string) (*unstructured.Unstructured, error) {
	stored := newObject(kind, namespace, "warrantgate")
	err := w.client.Get(ctx, client.ObjectKeyFromObject(stored), stored)
	return stored, err
}

// report returns the report of a namespace in the types that consumers decode it with, which must have all of its fields.
func (w *world) report(ctx context.Context, kind schema.GroupVersionKind, namespace string) (openreports.Report, error) {
	stored, err := w.storedReport(ctx, kind, namespace)
	if err != nil {
		return openreports.Report{}, err
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return openreports.Report{}, err
	}
	var report openreports.Report
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&report)
	return report, err
}

// reportsTotal is the number of reports with an outcome.
func (w *world) reportsTotal(ctx context.Context, outcome string) (float64, error) {
	return w.gate.Metric(ctx, "warrantgate_audit_reports_total", map[string]string{"outcome": outcome})
}

// resulting matches a result about a machine.
func resulting(result openreports.Result, rule string, machine client.Object, message any) OmegaMatcher {
	return And(HaveField("Source", "warrantgate"), HaveField("Policy", "machine-ownership"), HaveField("Rule", rule), HaveField("Result", result),
		HaveField("Description", message), HaveField("Timestamp.Seconds", BeNumerically("~", time.Now().Unix(), 3600)),
		HaveField("Subjects", ConsistOf(corev1.ObjectReference{
			APIVersion: infrastructure.String(), Kind: machineKind.Kind, Namespace: machine.GetNamespace(), Name: machine.GetName(), UID: machine.GetUID(),
		})))
}

// Operators see the findings where they see those of other programs: in the report of each namespace.
var _ = Describe("the reports of the audit", Ordered, func() {
	var (
		w *world
		// stale names a server of another user, and sibling one of its own user, in the namespace of the tenant.
		stale, sibling *unstructured.Unstructured
		incident       cloudsigmatest.Incident
		tenant, other  string
		installed      []client.Object
		// crowded is a namespace with more findings than a report lists.
		crowded string
	)
	const reporting = "audit: {interval: 1s, requestsPerSecond: 200, reports: true}\n"
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: reporting, before: func(w *world) {
			var err error
			incident, err = w.cloud.Incident()
			Expect(err).NotTo(HaveOccurred())
			tenant, other = w.namespace(ctx), w.namespace(ctx)
			Expect(w.client.Create(ctx, newCluster(tenant, clusterName, incident.User.Email))).To(Succeed())
			stale = w.leaveMachine(ctx, tenant, incident.Created.Name, incident.Stale.UUID)
			sibling = w.leaveMachine(ctx, tenant, incident.Sibling.Name, incident.Sibling.UUID)
			neighbor := w.user("neighbor@example.com")
			Expect(w.client.Create(ctx, newCluster(other, clusterName, neighbor.Email))).To(Succeed())
			w.leaveMachine(ctx, other, "neighbor", w.cloud.AddServer(region, neighbor, "neighbor").UUID)
		}})
	}, NodeTimeout(setupTimeout))
	AfterAll(func(ctx SpecContext) {
		for _, crd := range installed {
			Expect(w.api.Client().Delete(ctx, crd)).To(Succeed())
		}
	}, NodeTimeout(setupTimeout))

	expectReport := func(ctx context.Context, kind schema.GroupVersionKind) openreports.Report {
		GinkgoHelper()
		var report openreports.Report
		Eventually(func(g Gomega) {
			var err error
			report, err = w.report(ctx, kind, tenant)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(report.Results).To(HaveExactElements(
				And(resulting("fail", "InstanceNotOwned", stale, HavePrefix("instance "+incident.Stale.UUID+" exists, but is not one of user")), HaveField("Severity", BeEquivalentTo("high"))),
				resulting("pass", "InstanceOwned", sibling, "its instance belongs to the user that its provider acts as"),
			))
			g.Expect(report.Summary).To(Equal(openreports.ReportSummary{Pass: 1, Fail: 1}))
		}).Should(Succeed())
		return report
	}
	// awaitUnchanged expects that several runs write nothing.
	awaitUnchanged := func(ctx context.Context) {
		GinkgoHelper()
		w.awaitAudits(ctx, 1) // the run that wrote the report counts it a moment after the API server has it
		before, err := w.storedReport(ctx, reportKind, tenant)
		Expect(err).NotTo(HaveOccurred())
		written, err := w.reportsTotal(ctx, "written")
		Expect(err).NotTo(HaveOccurred())
		w.awaitAudits(ctx, 2)
		Expect(w.reportsTotal(ctx, "written")).To(Equal(written))
		Expect(w.reportsTotal(ctx, "failed")).To(BeZero())
		Expect(w.storedReport(ctx, reportKind, tenant)).To(HaveField("GetResourceVersion()", before.GetResourceVersion()))
	}

	It("are no error on an API server without them, and the log says so once", func(ctx SpecContext) {
		Eventually(func() (float64, error) { return w.reportsTotal(ctx, "unsupported") }).Should(BeNumerically(">", 2))
		Expect(strings.Count(suite.Log(w.gate), "audit.reports has no effect")).To(Equal(1))
		Expect(w.reportsTotal(ctx, "failed")).To(BeZero())
	}, SpecTimeout(timeout))

	It("are PolicyReports where only these are installed", func(ctx SpecContext) {
		installed = append(installed, w.installReports(ctx, policyReportKind))
		expectReport(ctx, policyReportKind)
	}, SpecTimeout(timeout))

	It("are Reports of openreports.io once these are installed", func(ctx SpecContext) {
		installed = append(installed, w.installReports(ctx, reportKind))
		Expect(expectReport(ctx, reportKind).Source).To(Equal("warrantgate"))
		Eventually(func() error { _, err := w.storedReport(ctx, policyReportKind, tenant); return err }).Should(MatchError(apierrors.IsNotFound, "not found"))
	}, SpecTimeout(timeout))

	It("contain nothing of another tenant", func(ctx SpecContext) {
		Eventually(func() error { _, err := w.report(ctx, reportKind, other); return err }).Should(Succeed())
		for namespace, foreign := range map[string][]string{tenant: {"neighbor", other, incident.Other.Email}, other: {incident.User.Email, tenant, incident.Created.UUID}} {
			stored, err := w.storedReport(ctx, reportKind, namespace)
			Expect(err).NotTo(HaveOccurred())
			raw, err := json.Marshal(stored)
			Expect(err).NotTo(HaveOccurred())
			for _, text := range foreign {
				Expect(string(raw)).NotTo(ContainSubstring(text))
			}
		}
	}, SpecTimeout(timeout))

	It("are written only after changes, also after a restart", func(ctx SpecContext) {
		awaitUnchanged(ctx)
		before, err := w.storedReport(ctx, reportKind, tenant)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.gate.Restart(ctx)).To(Succeed())
		awaitAuditing(ctx, w.gate)
		awaitUnchanged(ctx)
		Expect(w.reportsTotal(ctx, "written")).To(BeZero())
		Expect(w.storedReport(ctx, reportKind, tenant)).To(HaveField("GetResourceVersion()", before.GetResourceVersion()))
	}, SpecTimeout(timeout))

	// The tenant has every permission in its namespace.
	DescribeTable("are restored after a tenant's write", func(ctx SpecContext, attack func(object *unstructured.Unstructured)) {
		stored, err := w.storedReport(ctx, reportKind, tenant)
		Expect(err).NotTo(HaveOccurred())
		attack(stored)
		Expect(w.client.Update(ctx, stored)).To(Succeed())
		w.awaitAudits(ctx, 1)
		Expect(expectReport(ctx, reportKind).Scope).To(BeNil())
		awaitUnchanged(ctx)
	},
		Entry("of the results", SpecTimeout(timeout), func(o *unstructured.Unstructured) {
			o.Object["results"] = []any{map[string]any{"policy": "machine-ownership", "result": "pass", "message": "\x1b[2J all is well"}}
		}),
		Entry("of none", SpecTimeout(timeout), func(o *unstructured.Unstructured) { delete(o.Object, "results"); delete(o.Object, "summary") }),
		Entry("of the label", SpecTimeout(timeout), func(o *unstructured.Unstructured) { o.SetLabels(nil) }),
		Entry("of a MiB", SpecTimeout(timeout), with("scope.name", strings.Repeat("a", 1<<20))),
		Entry("of many annotations", SpecTimeout(timeout), func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"a": strings.Repeat("a", 200<<10)})
		}),
		Entry("of times", SpecTimeout(timeout), func(o *unstructured.Unstructured) {
			result := o.Object["results"].([]any)[0].(map[string]any) //nolint:errcheck,forcetypeassert // it has results
			result["timestamp"] = map[string]any{"seconds": int64(-1), "nanos": int64(-1)}
			o.Object["summary"] = map[string]any{"pass": int64(2)}
		}),
	)

	It("are written again after a tenant has deleted them, or replaced them by its own", func(ctx SpecContext) {
		Expect(w.client.Delete(ctx, newObject(reportKind, tenant, "warrantgate"))).To(Succeed())
		expectReport(ctx, reportKind)
		Expect(w.client.Delete(ctx, newObject(reportKind, tenant, "warrantgate"))).To(Succeed())
		Expect(client.IgnoreAlreadyExists(w.client.Create(ctx, newObject(reportKind, tenant, "warrantgate", with("source", "tenant"))))).To(Succeed())
		Expect(expectReport(ctx, reportKind).Source).To(Equal("warrantgate"))
		awaitUnchanged(ctx)
	}, SpecTimeout(timeout))

	It("of a tenant that prevents their deletion cause no further writes", func(ctx SpecContext) {
		stored, err := w.storedReport(ctx, reportKind, tenant)
		Expect(err).NotTo(HaveOccurred())
		with("scope.name", strings.Repeat("a", 1<<20))(stored)
		stored.SetFinalizers([]string{"example.com/mine"})
		Expect(w.client.Update(ctx, stored)).To(Succeed())
		Eventually(func() (*unstructured.Unstructured, error) { return w.storedReport(ctx, reportKind, tenant) }).
			Should(HaveField("GetDeletionTimestamp()", Not(BeNil())))
		expectReport(ctx, reportKind)
		awaitUnchanged(ctx)
		stored, err = w.storedReport(ctx, reportKind, tenant)
		Expect(err).NotTo(HaveOccurred())
		stored.SetFinalizers(nil)
		Expect(w.client.Update(ctx, stored)).To(Succeed())
		Eventually(func() (*unstructured.Unstructured, error) { return w.storedReport(ctx, reportKind, tenant) }).
			Should(HaveField("GetDeletionTimestamp()", BeNil()))
		expectReport(ctx, reportKind)
	}, SpecTimeout(timeout))

	It("follow corrections, and end with the machines of their namespace", func(ctx SpecContext) {
		Expect(w.setInstanceID(ctx, stale, incident.Created.UUID)).To(Succeed())
		Eventually(func() (openreports.Report, error) { return w.report(ctx, reportKind, tenant) }).
			Should(HaveField("Summary", openreports.ReportSummary{Pass: 2}))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(machineKind)
		Expect(w.client.List(ctx, list, client.InNamespace(other))).To(Succeed())
		for i := range list.Items {
			Expect(w.client.Delete(ctx, &list.Items[i])).To(Succeed())
		}
		Eventually(func() error { _, err := w.storedReport(ctx, reportKind, other); return err }).Should(MatchError(apierrors.IsNotFound, "not found"))
	}, SpecTimeout(timeout))

	It("are updated between two runs", func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: "audit: {interval: 1h, requestsPerSecond: 200, reports: true}\nmachine: {unknown: Deny}\n",
			before: func(w *world) {
				crowded = w.namespace(ctx)
				var machines errgroup.Group
				machines.SetLimit(32)
				for i := range 503 {
					machine := newMachine(crowded, fmt.Sprintf("m-%03d", i), "", providerID(uuid.NewString()))
					machines.Go(func() error { return w.client.Create(ctx, machine) })
				}
				Expect(machines.Wait()).To(Succeed())
			},
		})
		awaitAuditing(ctx, w.gate)
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "worker")
		Expect(w.setInstanceID(ctx, machine, w.cloud.AddServer(region, s.user, "worker").UUID)).To(Succeed())
		Eventually(func() ([]openreports.ReportResult, error) {
			report, err := w.report(ctx, reportKind, s.namespace)
			return report.Results, err
		}).Should(ConsistOf(resulting("pass", "InstanceOwned", machine, Not(BeEmpty()))))
		Expect(auditsOf(ctx, w.gate)).To(BeEquivalentTo(1), "there was no second run")
		// It stays for the next spec, which turns the reports off.
	}, NodeTimeout(setupTimeout))

	It("list 500 results, and count the others", func(ctx SpecContext) {
		report, err := w.report(ctx, reportKind, crowded)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Summary).To(Equal(openreports.ReportSummary{Fail: 503, Skip: 1}))
		Expect(report.Results).To(HaveLen(501))
		Expect(report.Results[:500]).To(HaveEach(And(HaveField("Rule", "MachineWithoutCluster"), HaveField("Result", BeEquivalentTo("fail")))))
		Expect(report.Results[500]).To(And(HaveField("Rule", "ResultsOmitted"), HaveField("Result", BeEquivalentTo("skip")),
			HaveField("Description", HavePrefix("3 more results of this namespace are only counted")), HaveField("Properties", HaveKeyWithValue("omitted", "3")),
			HaveField("Subjects", ConsistOf(corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: crowded, Name: crowded}))))
	}, SpecTimeout(timeout))

	It("are deleted when they are turned off", func(ctx SpecContext) {
		reports := &unstructured.UnstructuredList{}
		reports.SetGroupVersionKind(reportKind)
		Expect(w.client.List(ctx, reports)).To(Succeed())
		Expect(reports.Items).NotTo(BeEmpty())
		mine := newObject(reportKind, reports.Items[0].GetNamespace(), "mine", with("source", "tenant"))
		Expect(w.client.Create(ctx, mine)).To(Succeed())
		w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n"})
		Eventually(func() ([]unstructured.Unstructured, error) {
			err := w.client.List(ctx, reports)
			return reports.Items, err
		}).Should(ConsistOf(HaveField("GetName()", "mine")))
		Expect(w.client.Delete(ctx, mine)).To(Succeed())
	}, NodeTimeout(setupTimeout))
})
