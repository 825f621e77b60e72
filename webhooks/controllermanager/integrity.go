package controllermanager

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// Integrity is the validating gate that refuses a controller manager which, after all others have changed it, would not
// act as its cluster's user. It fails closed; those that run go on.
type Integrity struct {
	gate
}

// NewIntegrity returns the gate. Without impersonation it leaves every object alone, as Identity does.
func NewIntegrity(config v1beta1.ControllerManager, impersonation bool, objects controllermanager.Objects) *Integrity {
	return &Integrity{gate{config: config, impersonation: impersonation, objects: objects}}
}

var _ webhooks.Gate = &Integrity{}

// Name implements webhooks.Gate.
func (*Integrity) Name() string { return "controller-manager-integrity" }

// Review implements webhooks.Gate.
func (g *Integrity) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	return g.review(ctx, request, func(c checked) webhooks.Answer {
		problems := slices.Clone(c.Problems)
		if g.config.Mode == v1beta1.Warn {
			// In this mode Identity changes nothing, and has warned of what it would change. A second warning here would say that
			// the object would be refused, which it would not.
			problems = slices.DeleteFunc(problems, func(f controllermanager.Problem) bool { return f.Fix != nil })
		}
		if len(problems) > 0 {
			return c.refuse(problems)
		}
		return c.inPlace()
	})
}
