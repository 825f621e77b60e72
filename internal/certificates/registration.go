package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Registration is a webhook configuration by which an API server asks the gates.
type Registration struct {
	// Place names the API server in the log.
	Place string
	// Client reaches it.
	Client client.Client
	// Kind is MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
	Kind, Name string
	// Remedy says how the right to read and patch the configuration is given.
	Remedy string
}

// Registrations returns those of the objects that are webhook configurations.
func Registrations(place string, c client.Client, remedy string, objects []client.Object) []Registration {
	var found []Registration
	for _, object := range objects {
		if isConfiguration(object) {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			found = append(found, Registration{Place: place, Client: c, Kind: kind, Name: object.GetName(), Remedy: remedy})
		}
	}
	return found
}

func isConfiguration(object client.Object) bool {
	switch object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration:
		return true
	}
	return false
}

// hook is a webhook of a configuration, and its field for the authority.
type hook struct {
	name   string
	bundle *[]byte
}

func hooks(object client.Object) []hook {
	var found []hook
	switch typed := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range typed.Webhooks {
			found = append(found, hook{typed.Webhooks[i].Name, &typed.Webhooks[i].ClientConfig.CABundle})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range typed.Webhooks {
			found = append(found, hook{typed.Webhooks[i].Name, &typed.Webhooks[i].ClientConfig.CABundle})
		}
	}
	return found
}

// get returns the configuration as the API server has it, nil where there is none.
func (r Registration) get(ctx context.Context) (client.Object, error) {
	var object client.Object = &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if r.Kind == "MutatingWebhookConfiguration" {
		object = &admissionregistrationv1.MutatingWebhookConfiguration{}
	}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, r.explain("read", err)
	default:
		return object, nil
	}
}

// KeepAuthorities gives those of the objects that are webhook configurations the authorities that the API server has in
// them already, so that applying them takes nothing away. A webhook that is new gets what another one has.
func KeepAuthorities(ctx context.Context, c client.Client, objects []client.Object) error {
	present := map[string][]byte{}
	var other []byte
	for _, registration := range Registrations("the API server", c, "", objects) {
		object, err := registration.get(ctx)
		if err != nil {
			return err
		}
		for _, hook := range hooks(object) {
			present[hook.name] = *hook.bundle
			if len(other) == 0 {
				other = *hook.bundle
			}
		}
	}
	for _, object := range objects {
		for _, hook := range hooks(object) {
			*hook.bundle = other
			if bundle := present[hook.name]; len(bundle) > 0 {
				*hook.bundle = bundle
			}
		}
	}
	return nil
}

// trust has the API server trust the authorities. It takes up a change a moment later: fresh means that there was one, and
// that warrantgate may have been trusted before it by another authority. What is not registered needs no trust.
func (r Registration) trust(ctx context.Context, authorities []*x509.Certificate) (fresh bool, err error) {
	requestCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := r.get(requestCtx)
	if object == nil {
		return false, err
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("a copy of a %T is none", object)
	}
	changed := 0
	for _, hook := range hooks(object) {
		merged, err := merge(*hook.bundle, authorities, time.Now())
		if err != nil {
			return false, fmt.Errorf("authorities that %s trusts: %w", r.Place, err)
		}
		if bytes.Equal(merged, *hook.bundle) {
			continue
		}
		fresh = fresh || len(*hook.bundle) > 0
		*hook.bundle = merged
		changed++
	}
	if changed == 0 {
		return false, nil
	}
	// Only what differs is sent, and only if nobody else has written meanwhile.
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(requestCtx, object, patch, client.FieldOwner(fieldOwner)); err != nil {
		return false, r.explain("write", err)
	}
	logf.FromContext(ctx).Info("put the authority into a webhook configuration", "place", r.Place, "kind", r.Kind, "name", r.Name,
		"reason", "it did not have it", "webhooks", changed)
	return fresh, nil
}

func (r Registration) explain(verb string, err error) error {
	if apierrors.IsForbidden(err) && r.Remedy != "" {
		return fmt.Errorf("%s %s %q of %s: %w (%s)", verb, r.Kind, r.Name, r.Place, err, r.Remedy)
	}
	return fmt.Errorf("%s %s %q of %s: %w", verb, r.Kind, r.Name, r.Place, err)
}
