//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Policies for Keystone.
const (
	sound  = "identity:create_user: rule:admin_required\n"
	broken = "identity:list_users: !\n"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	// selected are the labels of gated policies.
	selected = map[string]string{"holds": "keystone-policy"}
)

func policy(namespace, name, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: selected}, Data: map[string]string{"policy.yaml": content},
	}
}

// cluster is a cluster that acts as a user.
func cluster(namespace, name, email string) *unstructured.Unstructured {
	return suite.NewObject(infrastructure.WithKind("CloudSigmaCluster"), namespace, name, suite.With("spec.region", region), suite.With("spec.userEmail", email))
}

// machine is a machine of a cluster. It names no server.
func machine(namespace, name, cluster string) *unstructured.Unstructured {
	object := suite.NewObject(infrastructure.WithKind("CloudSigmaMachine"), namespace, name)
	object.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	return object
}

// setInstanceID writes status.instanceID, as a provider's controller does.
func (w *world) setInstanceID(ctx context.Context, machine *unstructured.Unstructured, uuid string) error {
	changed := machine.DeepCopy()
	Expect(unstructured.SetNestedField(changed.Object, uuid, "status", "instanceID")).To(Succeed())
	return w.admin.Status().Patch(ctx, changed, client.MergeFrom(machine))
}

// verdict is the expected verdict of a write.
type verdict struct {
	// reason is the reason of a denial, "" if the write is admitted.
	reason metav1.CauseType
	// policy is the name of the admission policy that denies it in the API server.
	policy string
}

// check returns an error if the verdict on a write is not the expected one.
func (v verdict) check(err error) error {
	switch {
	case v.policy != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+v.policy+"'")):
		return fmt.Errorf("not denied by policy %s: %w", v.policy, err)
	case v.policy != "":
		return nil
	case v.reason == "" && err != nil:
		return fmt.Errorf("not admitted: %w", err)
	case v.reason != "" && err == nil:
		return fmt.Errorf("admitted, want a denial with %s", v.reason)
	case v.reason != "" && (!apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, v.reason)):
		return fmt.Errorf("not denied with %s: %w", v.reason, err)
	}
	return nil
}

// story is a cluster of a user, with a machine.
type story struct {
	*world
	namespace string
	user      cloudsigmatest.User
	machine   *unstructured.Unstructured
	// foreign is a server of another user.
	foreign string
}

// stories is the number of stories, for unique names of their users.
var stories int

// begin creates a story.
func (w *world) begin(ctx context.Context) story {
	GinkgoHelper()
	stories++
	s := story{world: w, namespace: suite.NewNamespace(ctx, w.admin), user: w.user(fmt.Sprintf("user-%d@example.com", stories))}
	s.foreign = w.cloud.AddServer(region, w.cloud.AddUser("other@example.com"), "foreign").UUID
	Expect(w.admin.Create(ctx, cluster(s.namespace, "pool", s.user.Email))).To(Succeed())
	s.machine = machine(s.namespace, "machine", "pool")
	Expect(w.admin.Create(ctx, s.machine)).To(Succeed())
	return s
}

// checkVerdicts returns an error unless a server of another user is denied and a server of the user is admitted.
func (s story) checkVerdicts(ctx context.Context) error {
	if err := (verdict{reason: "InstanceNotOwned"}).check(s.setInstanceID(ctx, s.machine, s.foreign)); err != nil {
		return err
	}
	owned := s.cloud.AddServer(region, s.user, "owned").UUID
	return verdict{}.check(s.setInstanceID(ctx, s.machine, owned))
}
