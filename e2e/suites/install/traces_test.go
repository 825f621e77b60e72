//go:build e2e

package install_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("a verdict", func() {
	It("has the same decision ID in kcp's audit log and in warrantgate's log", func(ctx SpecContext) {
		w := serve(ctx, "", "--log-level=debug")
		install(ctx, w)
		Eventually(func() error { // an unanswered notice is not sent again
			_, err := w.Run(ctx, "check", "admission", "kcp", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
			return err
		}).Should(Succeed())
		createAs(ctx, bot, "traced")

		gate := "owner-rewrite"
		if suite.ByPolicy(kcp) {
			gate = "owner-notice" // it reports the rewrite of the policy
		}
		prefix := gate + ".warrantgate.dev/"
		var annotations map[string]string
		Eventually(func() (map[string]string, error) {
			found, err := auditAnnotations("traced", prefix+"decision")
			annotations = found
			return found, err
		}).Should(And(
			HaveKeyWithValue(prefix+"decision", "allowed"), HaveKeyWithValue(prefix+"reason", "ServiceAccountRewritten"), HaveKey(prefix+"decision-id")))

		var verdicts []map[string]any
		for line := range strings.Lines(suite.Log(w)) {
			var entry map[string]any
			Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed(), "the log is not JSON: %s", line)
			if entry["msg"] == "verdict" && entry["decisionID"] == annotations[prefix+"decision-id"] {
				verdicts = append(verdicts, entry)
			}
		}
		Expect(verdicts).To(HaveExactElements(And(
			HaveKeyWithValue("gate", gate), HaveKeyWithValue("reason", "ServiceAccountRewritten"), HaveKeyWithValue("name", "traced"))))

		By("forging an owner, which the admission policy records in the audit log")
		ws, err := kcptest.GetWorkspace(ctx, provider, "traced")
		Expect(err).NotTo(HaveOccurred())
		Expect(forge(ctx, kcp.User("root:provider", "alice"), ws)).NotTo(Succeed())
		Eventually(func() (map[string]string, error) {
			return auditAnnotations("traced", "validation.policy.admission.k8s.io/validation_failure")
		}).Should(HaveKeyWithValue("validation.policy.admission.k8s.io/validation_failure", ContainSubstring("warrantgate-owner-integrity")))
	}, SpecTimeout(specTimeout))
})

// auditAnnotations returns the annotations of the audited request for a Workspace that has the given one.
func auditAnnotations(name, key string) (map[string]string, error) {
	log, err := os.ReadFile(auditLog)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, len(log)+1)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue // an incomplete line
		}
		if _, found := event.Annotations[key]; found && event.ObjectRef != nil && event.ObjectRef.Name == name {
			return event.Annotations, nil
		}
	}
	return nil, lines.Err()
}
