package gates

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks/workspace"
)

// Canary is an object that a gate has to deny or rewrite. It is sent as a dry run. Only a denial or a change by the gate itself
// counts, or the warning of a gate in mode Warn. It shows the behavior, not the configuration: the API server may not call a webhook although its
// configuration is installed.
type Canary struct {
	// Webhook is the name of the webhook that has to deny or rewrite the object. Policy is the name of the admission policy that has to deny it
	// instead.
	Webhook, Policy string
	// Reason is the reason of the denial in the gate's answer. OrReason is another one that the credentials of serve can lead to, "" for none.
	Reason, OrReason string
	// Warns is true if the gate is in mode Warn. It then admits the object with a warning, and the warning is the proof.
	Warns bool
	// Rewrites is true if the gate has to remove kcp.CanaryAnnotation from the object, which has it, and not to deny the object.
	Rewrites bool
	// Object is the object to send. It needs a name or a generateName.
	Object client.Object
}

// hookPath finds the path in the URL of a webhook. API servers include the URL in error messages. The path is secret: only users
// who may read webhook configurations may know it.
var hookPath = regexp.MustCompile(`(https://[^/"\s]+)/[^"\s]*`)

// Verdict is the result of a canary. The zero value is Unknown.
type Verdict string

const (
	// Unknown means that another component denied the request, or that there was no response.
	Unknown Verdict = ""
	// Proven means that the gate itself denied or rewrote the object, or warned.
	Proven Verdict = "proven"
	// Missing means that the API server admitted the object without the gate, or got no answer from the gate.
	Missing Verdict = "missing"
)

// Result is the outcome of a canary, with an explanation.
type Result struct {
	Verdict Verdict
	// Message explains the verdict to the user. Advice lists what to check; it is empty if the verdict is Proven.
	Message string
	Advice  []string
}

// Sender sends canaries to one API server, as one user. It is not safe for concurrent use.
type Sender struct {
	client   client.Client
	warnings warnings
}

// NewSender returns a sender. It calls newClient with a copy of config that collects warnings.
func NewSender(config *rest.Config, newClient func(*rest.Config) (client.Client, error)) (*Sender, error) {
	s := &Sender{}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext, config.WarningHandler = nil, &s.warnings
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	s.client = c
	return s, nil
}

// warnings collects the warnings in the last response of the API server (KEP-1693).
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// notFound is the error of an API server for the answer 404 of a webhook, without the address of the webhook.
const notFound = "failed to call webhook: the server could not find the requested resource"

// Send creates the object as a dry run and reports whether the gate denied or rewrote it, or warned.
func (s *Sender) Send(ctx context.Context, canary Canary) Result {
	s.warnings.texts = nil
	object := canary.Object.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // a copy has the same type
	err := s.client.Create(ctx, object, client.DryRunAll)
	_, kept := object.GetAnnotations()[kcp.CanaryAnnotation]
	unchanged := canary.Rewrites && (err == nil && kept || deniedBy(workspace.IntegrityPolicyName, err)) // that policy protects the annotation
	switch {
	case canary.Rewrites && err == nil && !kept:
		return Result{Verdict: Proven, Message: "warrantgate rewrote the object"}
	case unchanged && canary.Warns:
		return canary.passed(s.warnings.texts)
	case unchanged:
		return missing(fmt.Sprintf("webhook %q did not rewrite the object", canary.Webhook),
			"whether the webhook configuration is installed: kubectl get mutatingwebhookconfigurations warrantgate --output=yaml; if only the "+
				"admission policies are, add --policies-only",
			"its failurePolicy: with Ignore the API server admits all requests if it cannot reach warrantgate, and logs the failure",
			"the mode of the gate in the configuration of serve, and whether serve has the version of this command")
	case err == nil && canary.Policy != "":
		return canary.passedPolicy(s.warnings.texts)
	case err == nil:
		return canary.passed(s.warnings.texts)
	case canary.Policy != "" && deniedBy(canary.Policy, err):
		return Result{Verdict: Proven, Message: fmt.Sprintf("the admission policy denied the object: %v", err)}
	case meta.IsNoMatchError(err):
		return unknown(fmt.Sprintf("the API server has no such kind: %v", err), "the custom resource definitions of the provider")
	case strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q denied the request", canary.Webhook)):
		return canary.denied(err)
	case strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q: %s", canary.Webhook, notFound)):
		return missing("the API server got the answer 404: warrantgate does not take it for an API server, or does not have this gate: "+err.Error(),
			"whether the path in the webhook configuration begins with a token of serve's --webhook-path-file: run install again, with "+
				"--webhook-path-file and the same file",
			"or else whether serve's --client-names have the name in the API server's client certificate",
			"whether warrantgate, and no other server, answers at the URL in the webhook configuration",
			"the mode of the gate in the configuration of serve")
	case strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q", canary.Webhook)):
		return missing("the API server cannot reach warrantgate: "+hookPath.ReplaceAllString(err.Error(), "$1/…"),
			"whether its pods are ready: kubectl get pods --selector=app.kubernetes.io/name=warrantgate",
			"whether the URL or Service in the webhook configuration (--url of install) leads to it, and the NetworkPolicy and the network admit "+
				"connections of the API server",
			"whether the caBundle of the webhook configuration (--ca-file of install) contains the CA of the serving certificate")
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return unknown(fmt.Sprintf("the request was denied before admission, or by an admission policy: %v", err),
			"whether the user of the kubeconfig may create such an object, and which admission policies are installed")
	}
	return unknown(fmt.Sprintf("the request failed before warrantgate decided: %v", err), "the cause in this message")
}

// Name is the name of the webhook or policy that has to act.
func (c Canary) Name() string { return cmp.Or(c.Webhook, c.Policy) }

// denied interprets a denial by the webhook. The gate denies with 403 (not allowed) or 422 (malformed value). With 503 it answers
// that it could not decide.
func (c Canary) denied(err error) Result {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return unknown(fmt.Sprintf("warrantgate answered, but could not decide: %v", err), "the log of warrantgate")
	}
	if c.Warns {
		return Result{Verdict: Proven, Message: fmt.Sprintf("warrantgate denied the object, although its configuration has mode Warn (was it restarted since?): %v", err)}
	}
	return Result{Verdict: Proven, Message: fmt.Sprintf("warrantgate denied the object: %v", err)}
}

// passed interprets an object that the API server admitted.
func (c Canary) passed(texts []string) Result {
	warned := slices.IndexFunc(texts, func(text string) bool {
		reason, _, found := strings.Cut(text, " (mode Warn")
		return found && (reason == c.Reason || reason == c.OrReason)
	})
	switch {
	case warned >= 0 && c.Warns:
		return Result{Verdict: Proven, Message: "the object was admitted with the warning of warrantgate, because the gate is in mode Warn: " + texts[warned]}
	case warned >= 0:
		return missing("the object was admitted with the warning of warrantgate: "+texts[warned],
			"the configuration of serve: the gate is in mode Warn there, but in mode Enforce in the configuration of this command")
	}
	return missing(fmt.Sprintf("the object was admitted, and webhook %q neither denied it nor warned", c.Webhook),
		"whether the webhook configuration is installed: kubectl get validatingwebhookconfigurations warrantgate --output=yaml",
		"its failurePolicy: with Ignore, as in mode Warn, the API server admits all requests if it cannot reach warrantgate, and logs the failure",
		"whether its namespaceSelector, objectSelector and matchConditions select this object",
		"the mode of the gate in the configuration of serve")
}

// passedPolicy interprets an object that the API server admitted although a policy has to deny it, or to warn.
func (c Canary) passedPolicy(texts []string) Result {
	warned := slices.IndexFunc(texts, func(text string) bool { return strings.Contains(text, quotedPolicy(c.Policy)) })
	switch {
	case warned >= 0 && c.Warns:
		return Result{Verdict: Proven, Message: "the object was admitted with the warning of the admission policy, because the gate is in mode Warn: " + texts[warned]}
	case warned >= 0:
		return missing("the object was admitted with the warning of the admission policy: "+texts[warned], "whether install had the configuration of this command")
	}
	return missing(fmt.Sprintf("the object was admitted, and admission policy %q neither denied it nor warned", c.Policy),
		"whether the policy and its binding are installed: kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings "+c.Policy)
}

func unknown(message string, advice ...string) Result {
	return Result{Verdict: Unknown, Message: message, Advice: advice}
}

func missing(message string, advice ...string) Result {
	return Result{Verdict: Missing, Message: message, Advice: advice}
}
