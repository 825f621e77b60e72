// Package controllermanager holds the gates on the Deployments, DaemonSets and StatefulSets of cloud controller managers: each
// has to ask the cloud as the user whom its cluster acts as. With the credentials that are the same for all clusters the cloud
// refuses to show it the user's servers, and the nodes stay uninitialized.
//
// Identity adds the environment that this takes, Integrity refuses an object that does not carry it. Both use the same check, that
// of internal/controllermanager, which reads the CloudSigmaCluster at the time of the request. A cluster that gets another user
// later is noticed at the next change of the pods, such as a restart.
package controllermanager

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// gate is what both gates share.
type gate struct {
	config        v1beta1.ControllerManager
	impersonation bool
	objects       controllermanager.Objects
}

// checked is an object with the result of its check.
type checked struct {
	controllermanager.Result
	workload workload
}

// review checks the object of a request and returns what answer makes of it. It fails closed: without a result the request is
// refused.
func (g *gate) review(ctx context.Context, request admission.Request, answer func(checked) webhooks.Answer) webhooks.Answer {
	if !g.impersonation {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationOff"}
	}
	w, err := decode(request)
	switch {
	case err != nil:
		return webhooks.Undecodable(err)
	case w.beingDeleted(): // nothing may keep an object from being deleted
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "BeingDeleted"}
	}
	result, err := controllermanager.Check(ctx, g.config, g.objects, w.domain())
	c := checked{Result: result, workload: w}
	if err != nil {
		return c.undecided(err)
	}
	return answer(c)
}

// undecided says that the objects cannot be read.
func (c checked) undecided(err error) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Subject: c.workload.subject(),
		Message: "the cluster of the controller manager, or its Secret, cannot be read now; try again", Details: c.details,
	}
	return answer.WithDetails("error", err.Error())
}

// refuse names all problems at once, so that one attempt is enough to correct them. There is at least one.
func (c checked) refuse(problems []controllermanager.Problem) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: webhooks.Denied, Reason: problems[0].Reason, Subject: c.workload.subject(), Field: problems[0].Field,
		Message: controllermanager.Joined(problems), Details: c.details,
	}
	for _, further := range problems[1:] {
		answer.Causes = append(answer.Causes, metav1.StatusCause{Type: metav1.CauseType(further.Reason), Message: further.Message, Field: further.Field})
	}
	return answer
}

// inPlace admits the object as it is.
func (c checked) inPlace() webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "IdentityInPlace", Details: c.details}
}

// details are for the operator's log.
func (c checked) details() []any {
	return []any{"cluster", c.Cluster, "user", c.Account.User, "region", c.Account.Region}
}
