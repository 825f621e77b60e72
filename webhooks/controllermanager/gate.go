// Package controllermanager holds the gates on the Deployments of cloud controller managers: each has to ask the cloud as
// the user whom its cluster acts as. With the credentials that are the same for all clusters the cloud refuses to show it
// the user's servers, and the nodes stay uninitialized.
//
// Identity gives a Deployment the environment that it takes, Integrity refuses one that does not carry it. Both rest on
// the same judgment, which goes by what the CloudSigmaCluster says when it is asked for. A cluster that gets another user
// later is noticed at the next change of the Deployment's pods, such as a restart.
package controllermanager

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Reasons of what has to do with the Deployment as a whole. Those of its environment are in environment.go.
const (
	reasonWithoutCluster     = "ControllerManagerWithoutCluster"
	reasonContainerMissing   = "ContainerMissing"
	reasonContainerAmbiguous = "ContainerAmbiguous"
)

// Objects tells what else the API server holds.
type Objects interface {
	// AccountNow returns as whom the provider of a cluster acts, as the API server has it now: what is written into a
	// Deployment stays there, so it must not come from a cache that is behind. The error is a *clusterapi.AccountError
	// where the objects do not say.
	AccountNow(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
}

// gate is what both gates share.
type gate struct {
	config        v1beta1.ControllerManager
	impersonation bool
	objects       Objects
}

// finding is one thing that keeps a Deployment from acting as its cluster's user.
type finding struct {
	// reason is a stable word, message is for the person who sent the request, field is the path of what it is about.
	reason, message, field string
	// mend puts it right. Nil where only a person can.
	mend *mend
}

// verdict is what was found out about a Deployment.
type verdict struct {
	deployment deployment
	// clusterName and account are the cluster that it is of and as whom that acts, empty where this was not found out.
	clusterName string
	account     ownership.Account
	// container is the index of the container that the findings with a mend are about.
	container int
	findings  []finding
}

// review judges a request and has the gate conclude. It fails closed: what cannot be judged is refused.
func (g *gate) review(ctx context.Context, request admission.Request, conclude func(verdict) webhooks.Answer) webhooks.Answer {
	if !g.impersonation {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationOff"}
	}
	d, err := decode(request)
	switch {
	case err != nil:
		return webhooks.Undecodable(err)
	case d.DeletionTimestamp != nil: // nothing may keep an object from going away
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "BeingDeleted"}
	}
	v, err := g.judge(ctx, d)
	if err != nil {
		return g.undecided(v, err)
	}
	return conclude(v)
}

// judge finds all that is wrong with a Deployment. The error says that this cannot be told now.
func (g *gate) judge(ctx context.Context, d deployment) (verdict, error) {
	v := verdict{deployment: d, clusterName: d.Labels[g.config.ClusterNameLabel]}
	var refused *finding
	if v.container, refused = d.container(g.config.Container); refused != nil {
		v.findings = []finding{*refused}
		return v, nil
	}
	if found := globalCredentials(d.Spec.Template.Spec, v.container, g.config.SecretName); found != nil {
		v.findings = append(v.findings, *found)
	}
	if v.clusterName == "" {
		v.findings = append(v.findings, finding{
			reason: reasonWithoutCluster, field: labelField(g.config.ClusterNameLabel),
			message: fmt.Sprintf("it has no label %q, so it is not known as which user it has to act; "+
				"set the label to the name of its CloudSigmaCluster", g.config.ClusterNameLabel),
		})
		return v, nil
	}
	var err error
	v.account, err = g.objects.AccountNow(ctx, clusterapi.Cluster{
		Provider: v1beta1.ProviderCloudSigma, Namespace: d.Namespace, Name: v.clusterName,
	})
	if err == nil && v.account.User == "" { // one account stands for all clusters, which is what impersonation replaces
		err = &clusterapi.AccountError{
			Reason: clusterapi.UserMissing, Message: fmt.Sprintf("CloudSigmaCluster %q names no user", v.clusterName),
		}
	}
	var unsaid *clusterapi.AccountError
	switch {
	case errors.As(err, &unsaid):
		v.findings = append(v.findings, finding{
			reason: string(unsaid.Reason), field: labelField(g.config.ClusterNameLabel),
			message: fmt.Sprintf("it is not known as which user it has to act: %v", unsaid),
		})
		return v, nil
	case err != nil:
		return v, err
	}
	env := d.Spec.Template.Spec.Containers[v.container].Env
	v.findings = append(v.findings, compare(env, wanted(g.config.SecretName, v.clusterName, v.account), envField(v.container))...)
	return v, nil
}

func labelField(label string) string { return field.NewPath("metadata", "labels").Key(label).String() }

func envField(container int) *field.Path {
	return field.NewPath("spec", "template", "spec", "containers").Index(container).Child("env")
}

func (g *gate) undecided(v verdict, err error) webhooks.Answer {
	answer := g.about(v, "the cluster of the controller manager cannot be read now; try again")
	answer.Decision, answer.Reason = webhooks.Undecided, "ObjectsUnknown"
	answer.Details = func() []any { return append(v.details(), "error", err.Error()) }
	answer.Events = v.deployment.events(corev1.EventTypeWarning, answer.Reason, g.refused()+answer.Message)
	return answer
}

// refuse says everything that was found at once, so that it takes one attempt to put it right. There is at least one
// finding.
func (g *gate) refuse(v verdict, findings []finding) webhooks.Answer {
	answer := g.about(v, joined(findings))
	answer.Reason, answer.Field = findings[0].reason, findings[0].field
	for _, further := range findings[1:] {
		answer.Causes = append(answer.Causes, further.cause())
	}
	answer.Events = v.deployment.events(corev1.EventTypeWarning, answer.Reason, g.refused()+answer.Message)
	return answer
}

// about is an answer about a Deployment, which refuses unless more is said.
func (*gate) about(v verdict, message string) webhooks.Answer {
	return webhooks.Answer{Message: v.deployment.String() + ": " + message, Details: v.details}
}

// refused starts the Event about a refusal.
func (g *gate) refused() string {
	if g.config.Mode == v1beta1.Warn {
		return "Admitted with a warning: "
	}
	return "Refused: "
}

// details are for the operator's log.
func (v verdict) details() []any {
	return []any{"cluster", v.clusterName, "user", v.account.User, "region", v.account.Region}
}
