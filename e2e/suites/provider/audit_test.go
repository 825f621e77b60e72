//go:build e2e

package provider_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// audited returns the Events of the audit in a workspace, as "reason kind/name: message", without duplicates.
func audited(ctx context.Context, config *rest.Config) ([]string, error) {
	events := &corev1.EventList{}
	if err := suite.UnstructuredClient(config).List(ctx, events); err != nil {
		return nil, err
	}
	var found []string
	for i := range events.Items {
		event := &events.Items[i]
		if message, ok := strings.CutPrefix(event.Message, "Audit: "); ok {
			found = append(found, fmt.Sprintf("%s %s/%s: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, message))
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// customer adds a user of the cloud that warrantgate may act as.
func customer(email string) cloudsigmatest.User {
	GinkgoHelper()
	user := cloud.AddUser(email)
	Expect(cloud.AllowImpersonation(incident.Client.ID, email)).To(Succeed())
	return user
}
