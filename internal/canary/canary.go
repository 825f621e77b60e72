// Package canary tries whether an API server asks warrantgate: it sends, as a dry run, an object that a gate has to refuse,
// and says who refused it. Only warrantgate's own refusal counts, or its warning where the gate only warns.
//
// It tells what it saw, not what is configured: a webhook may be registered, and still not be asked.
package canary

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Canary is an object that a gate has to refuse.
type Canary struct {
	// Webhook is the name of the webhook that has to refuse it.
	Webhook string
	// Reason is the word by which the gate names what is wrong with the object.
	Reason string
	// Warns is true where the gate only warns: the object passes, and the warning is the proof.
	Warns bool
	// Object is what is sent. It needs a name or a generateName.
	Object client.Object
}

// hookPath finds the path in the URL of a webhook. API servers put it into their errors, and only readers of webhook
// configurations may know it.
var hookPath = regexp.MustCompile(`(https://[^/"\s]+)/[^"\s]*`)

// Verdict is what came out. The zero value is that nothing is known.
type Verdict string

const (
	// Unknown is a request that ended otherwise: it was refused by somebody else, or nobody answered.
	Unknown Verdict = ""
	// Proven is a refusal or warning of the gate's own.
	Proven Verdict = "proven"
	// Missing is an object that passed the gate unseen, or a gate that the API server could not reach.
	Missing Verdict = "missing"
)

// Finding is what became of a canary.
type Finding struct {
	Verdict Verdict
	// Message says who did what, for people. Advice says what to look at, one line each; there is none for a proof.
	Message string
	Advice  []string
}

// Sender sends canaries to one API server, as one user. It is not for concurrent use.
type Sender struct {
	client   client.Client
	warnings warnings
}

// NewSender returns a sender with a client for the config, which newClient makes.
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

// warnings are those that the API server sent along with its last answer (KEP-1693).
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Send creates the object as a dry run, and finds out whether the gate did what it has to.
func (s *Sender) Send(ctx context.Context, canary Canary) Finding {
	s.warnings.texts = nil
	object := canary.Object.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // a copy is of the same kind
	err := s.client.Create(ctx, object, client.DryRunAll)
	switch {
	case err == nil:
		return canary.passed(s.warnings.texts)
	case meta.IsNoMatchError(err):
		return unknown(fmt.Sprintf("the API server has no such kind: %v", err), "the custom resource definitions of the provider")
	case strings.Contains(err.Error(), canary.named("denied the request")):
		return canary.denied(err)
	case strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q", canary.Webhook)):
		return missing("the API server does not reach warrantgate: "+hookPath.ReplaceAllString(err.Error(), "$1/…"),
			"whether its pods are ready: kubectl get pods --selector=app.kubernetes.io/name=warrantgate",
			"whether the Service, the NetworkPolicy and the network let the API server in",
			"whether the caBundle of the webhook configuration is the authority of the certificate that is served",
			"whether the path in the webhook configuration begins with a token of serve's --webhook-path-file, or else its --client-names")
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return unknown(fmt.Sprintf("the request did not come as far as admission, or somebody else refused it: %v", err),
			"whether the user of the kubeconfig may create such an object, and which admission policies there are")
	}
	return unknown(fmt.Sprintf("the request ended before warrantgate was heard: %v", err), "what the message says")
}

func (c Canary) named(what string) string {
	return fmt.Sprintf("admission webhook %q %s", c.Webhook, what)
}

// denied says what a refusal of the webhook proves: what is not allowed is 403, a malformed value 422. A gate that could not judge
// answers too, but as 503.
func (c Canary) denied(err error) Finding {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return unknown(fmt.Sprintf("warrantgate answers, but could not judge: %v", err), "the log of warrantgate")
	}
	if c.Warns {
		return Finding{Verdict: Proven, Message: fmt.Sprintf("warrantgate refused it, although it is to warn only (has it been restarted since?): %v", err)}
	}
	return Finding{Verdict: Proven, Message: fmt.Sprintf("warrantgate refused it: %v", err)}
}

// passed says what it means that the object was not refused.
func (c Canary) passed(texts []string) Finding {
	told := slices.IndexFunc(texts, func(text string) bool { return strings.HasPrefix(text, c.Reason+" (mode Warn") })
	switch {
	case told >= 0 && c.Warns:
		return Finding{Verdict: Proven, Message: "it passed, as the gate is in mode Warn, with warrantgate's warning: " + texts[told]}
	case told >= 0:
		return missing("it passed, with warrantgate's warning: "+texts[told],
			"the configuration of the warrantgate that serves: the gate is in mode Warn there, but Enforce in the one of this command")
	}
	return missing(fmt.Sprintf("it passed, and webhook %q neither refused it nor warned", c.Webhook),
		"whether it is registered: kubectl get validatingwebhookconfigurations warrantgate --output=yaml",
		"its failurePolicy: with Ignore, as in mode Warn, a warrantgate that is not reached refuses nothing; the log of the API server tells of it",
		"whether its namespaceSelector, objectSelector and matchConditions let this object through",
		"the mode of the gate in the configuration of the warrantgate that serves")
}

func unknown(message string, advice ...string) Finding {
	return Finding{Verdict: Unknown, Message: message, Advice: advice}
}

func missing(message string, advice ...string) Finding {
	return Finding{Verdict: Missing, Message: message, Advice: advice}
}
