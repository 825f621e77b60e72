// Package controllermanager contains the gates on Deployments, DaemonSets and StatefulSets of cloud controller managers. A
// controller manager has to send its requests as the user of its cluster. With the credentials of all clusters, the cloud denies
// access to the user's servers, and the nodes stay uninitialized.
//
// Identity adds the required environment. Integrity denies an object without it. Both use the check of internal/controllermanager,
// which reads the current CloudSigmaCluster. If the user of a cluster changes later, the gates detect it at the next change of the
// pods, such as a restart.
package controllermanager

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// gate is the common part of both gates.
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

// review checks the object of a request, and calls answer with the result. It fails closed: without a result it denies the request.
func (g *gate) review(ctx context.Context, request admission.Request, answer func(checked) webhooks.Answer) webhooks.Answer {
	if !g.impersonation {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationOff"}
	}
	w, err := decode(request)
	switch {
	case err != nil:
		return webhooks.Undecodable(err)
	case w.beingDeleted(): // a gate must not block a deletion
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "BeingDeleted"}
	}
	result, err := controllermanager.Check(ctx, g.config, g.objects, w.domain())
	c := checked{Result: result, workload: w}
	if err != nil {
		return c.undecided(err)
	}
	return answer(c)
}

// nobody admits a controller manager that has no cluster and no identity, as in the provider's own manifest: it can do nothing as anybody.
func (c checked) nobody(label string) webhooks.Answer {
	return webhooks.Answer{
		Decision: webhooks.Warned, Reason: "IdentityMissing", Subject: c.workload.subject(), Details: c.details,
		Message: fmt.Sprintf("it has no label %q and no credentials, so it is admitted without an identity, and the cloud does not answer it; "+
			"set the label to the name of its CloudSigmaCluster to give it the identity", label),
	}
}

// undecided is the answer if objects cannot be read.
func (c checked) undecided(err error) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Subject: c.workload.subject(),
		Message: "the cluster of the controller manager, or its Secret, cannot be read now; try again", Details: c.details,
	}
	return answer.WithDetails("error", err.Error())
}

// deny lists all problems, so that the requester can correct them at once. There is at least one.
func (c checked) deny(problems []controllermanager.Problem) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: webhooks.Denied, Reason: problems[0].Reason, Subject: c.workload.subject(), Field: problems[0].Field,
		Message: controllermanager.Joined(problems), Details: c.details,
	}
	for _, further := range problems[1:] {
		answer.Causes = append(answer.Causes, metav1.StatusCause{Type: metav1.CauseType(further.Reason), Message: further.Message, Field: further.Field})
	}
	return answer
}

// inPlace admits the object unchanged.
func (c checked) inPlace() webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "IdentityInPlace", Details: c.details}
}

// details are for the operator's log.
func (c checked) details() []any {
	return []any{"cluster", c.Cluster, "user", c.Account.User, "region", c.Account.Region}
}
