// Package controllermanager holds the gates on the Deployments, DaemonSets and StatefulSets of cloud controller managers: each
// has to ask the cloud as the user whom its cluster acts as. With the credentials that are the same for all clusters the cloud
// refuses to show it the user's servers, and the nodes stay uninitialized.
//
// Identity gives one the environment that it takes, Integrity refuses one that does not carry it. Both rest on the same
// judgment, that of internal/controllermanager, which goes by what the CloudSigmaCluster says when it is asked for. A cluster
// that gets another user later is noticed at the next change of the pods, such as a restart.
package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Reasons of what has to do with the object as a whole. Those of its pods are in internal/controllermanager.
const (
	reasonWithoutCluster     = "ControllerManagerWithoutCluster"
	reasonContainerMissing   = "ContainerMissing"
	reasonContainerAmbiguous = "ContainerAmbiguous"
	// reasonDeselected: the object would not be looked at any more.
	reasonDeselected = "ControllerManagerDeselected"
	reasonSecret     = "SecretMissing"
)

// Objects tells what else the API server holds.
type Objects interface {
	// AccountNow returns as whom the provider of a cluster acts, as the API server has it now: what is written into an
	// object stays there, so it must not come from a cache that is behind. The error is a *clusterapi.AccountError
	// where the objects do not say.
	AccountNow(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	// SecretKeysNow returns the keys of a Secret that hold something, as the API server has it now. It is not found where there
	// is no such Secret.
	SecretKeysNow(ctx context.Context, namespace, name string) (keys []string, found bool, err error)
}

// gate is what both gates share.
type gate struct {
	config        v1beta1.ControllerManager
	impersonation bool
	objects       Objects
}

// verdict is what was found out about an object.
type verdict struct {
	workload workload
	// clusterName and account are the cluster that it is of and as whom that acts, empty where this was not found out.
	clusterName string
	account     ownership.Account
	// container is the index of the container that the findings with a mend are about.
	container int
	findings  []controllermanager.Finding
}

// review judges a request and has the gate conclude. It fails closed: what cannot be judged is refused.
func (g *gate) review(ctx context.Context, request admission.Request, conclude func(verdict) webhooks.Answer) webhooks.Answer {
	if !g.impersonation {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationOff"}
	}
	w, err := decode(request)
	switch {
	case err != nil:
		return webhooks.Undecodable(err)
	case w.beingDeleted(): // nothing may keep an object from going away
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "BeingDeleted"}
	}
	v, err := g.judge(ctx, w)
	if err != nil {
		return undecided(v, err)
	}
	return conclude(v)
}

// judge finds all that is wrong with an object. The error says that this cannot be told now.
func (g *gate) judge(ctx context.Context, w workload) (verdict, error) {
	v := verdict{workload: w, clusterName: w.Labels[g.config.ClusterNameLabel]}
	if deselected := g.deselected(w); deselected != nil {
		v.findings = append(v.findings, *deselected)
		return v, nil
	}
	var refused *controllermanager.Finding
	if v.container, refused = w.container(g.config.Container); refused != nil {
		v.findings = append(v.findings, *refused)
		return v, nil
	}
	pod := controllermanager.Pod{PodSpec: w.Spec.Template.Spec, Manager: v.container, Secret: g.config.SecretName}
	v.findings = pod.Confined(g.config.Commands)
	if v.clusterName == "" {
		v.findings = append(v.findings, controllermanager.Finding{
			Reason: reasonWithoutCluster, Field: labelField(g.config.ClusterNameLabel),
			Message: fmt.Sprintf("it has no label %q, so it is not known as which user it has to act; "+
				"set the label to the name of its CloudSigmaCluster", g.config.ClusterNameLabel),
		})
		return v, nil
	}
	var err error
	v.account, err = g.objects.AccountNow(ctx, clusterapi.Cluster{
		Provider: v1beta1.ProviderCloudSigma, Namespace: w.Namespace, Name: v.clusterName,
	})
	if err == nil && v.account.User == "" { // one account stands for all clusters, which is what impersonation replaces
		err = &clusterapi.AccountError{
			Reason: clusterapi.UserMissing, Message: fmt.Sprintf("CloudSigmaCluster %q names no user", v.clusterName),
		}
	}
	var unsaid *clusterapi.AccountError
	switch {
	case errors.As(err, &unsaid):
		v.findings = append(v.findings, controllermanager.Finding{
			Reason: string(unsaid.Reason), Field: labelField(g.config.ClusterNameLabel),
			Message: fmt.Sprintf("it is not known as which user it has to act: %v", unsaid),
		})
		return v, nil
	case err != nil:
		return v, fmt.Errorf("read the cluster: %w", err)
	}
	v.findings = append(v.findings, pod.ActsAs(controllermanager.Identity{Cluster: v.clusterName, Account: v.account})...)
	missing, err := g.secret(ctx, v)
	if missing != nil {
		v.findings = append(v.findings, *missing)
	}
	return v, err
}

// deselected finds that an object was selected by its labels and would not be any more. The next change of it would not be
// judged.
func (g *gate) deselected(w workload) *controllermanager.Finding {
	if w.before == nil || g.config.Selector == nil || slices.Contains(g.config.Objects, v1beta1.ControllerManagerObject{Namespace: w.Namespace, Name: w.Name}) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(g.config.Selector)
	if err != nil || !selector.Matches(labels.Set(w.before.Labels)) || selector.Matches(labels.Set(w.Labels)) {
		return nil // a selector that is none has been refused with the configuration
	}
	return &controllermanager.Finding{
		Reason: reasonDeselected, Field: "metadata.labels", Message: fmt.Sprintf("its labels make it a controller manager (%s), and without them "+
			"its next change would not be checked; leave them, or delete the object and make another one", selector),
	}
}

// secret finds that the Secret with the credentials is not there, or not complete.
func (g *gate) secret(ctx context.Context, v verdict) (*controllermanager.Finding, error) {
	keys, found, err := g.objects.SecretKeysNow(ctx, v.workload.Namespace, g.config.SecretName)
	if err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	missing := slices.DeleteFunc(controllermanager.SecretKeys(), func(key string) bool { return slices.Contains(keys, key) })
	if len(missing) == 0 {
		return nil, nil
	}
	finding := &controllermanager.Finding{Reason: reasonSecret, Field: envField(v.container)}
	if found {
		finding.Message = fmt.Sprintf("Secret %q of its namespace has nothing under %s, without which its pods do not start; add that first",
			g.config.SecretName, strings.Join(missing, ", "))
		return finding, nil
	}
	finding.Message = fmt.Sprintf("there is no Secret %q in its namespace, without which its pods do not start; make it first, with the keys %s",
		g.config.SecretName, strings.Join(missing, ", "))
	return finding, nil
}

func labelField(label string) string { return field.NewPath("metadata", "labels").Key(label).String() }

func envField(container int) string {
	return field.NewPath("spec", "template", "spec", "containers").Index(container).Child("env").String()
}

// undecided says that the objects cannot be read.
func undecided(v verdict, err error) webhooks.Answer {
	return webhooks.Answer{
		Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Subject: v.workload.subject(),
		Message: "the cluster of the controller manager, or its Secret, cannot be read now; try again",
		Details: func() []any { return append(v.details(), "error", err.Error()) },
	}
}

// refuse names all findings at once, so that one attempt is enough to correct them. There is at least one.
func refuse(v verdict, findings []controllermanager.Finding) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: webhooks.Denied, Reason: findings[0].Reason, Subject: v.workload.subject(), Field: findings[0].Field,
		Message: controllermanager.Joined(findings), Details: v.details,
	}
	for _, further := range findings[1:] {
		answer.Causes = append(answer.Causes, metav1.StatusCause{Type: metav1.CauseType(further.Reason), Message: further.Message, Field: further.Field})
	}
	return answer
}

// details are for the operator's log.
func (v verdict) details() []any {
	return []any{"cluster", v.clusterName, "user", v.account.User, "region", v.account.Region}
}
