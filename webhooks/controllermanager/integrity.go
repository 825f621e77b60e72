package controllermanager

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// Integrity is the validating gate that denies a controller manager that, after all mutating webhooks, would not act as the user of
// its cluster. It fails closed. Running pods are not affected.
type Integrity struct {
	gate
}

// NewIntegrity returns the gate. Without impersonation it denies nothing.
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
			// In mode Warn, Identity changes nothing and has already warned about these problems. A second warning would be
			// misleading, because in mode Enforce Identity fixes them.
			problems = slices.DeleteFunc(problems, func(f controllermanager.Problem) bool { return f.Fix != nil })
		}
		if len(problems) > 0 {
			return c.deny(problems)
		}
		return c.inPlace()
	})
}
