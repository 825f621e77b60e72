package keystone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
)

// Base reads the policies that Keystone loads before those that are written. The configuration names the ConfigMaps: if
// the objects that are checked could name the base, their authors would choose what their rules mean.
//
// The ConfigMaps are read for each decision, so that a change of them counts at once. Policies are written rarely.
type Base struct {
	objects []v1beta1.KeystonePolicyBase
	client  corev1client.ConfigMapsGetter
}

// NewBase returns the base of a configuration. There may be no client if the configuration names no base.
func NewBase(config v1beta1.KeystonePolicy, client corev1client.ConfigMapsGetter) *Base {
	return &Base{objects: config.Base, client: client}
}

// unreadable is the answer if an object of the base cannot be read. why is a part of a sentence. The cause is for the log, because the requester
// must not see it.
func unreadable(object v1beta1.KeystonePolicyBase, why string, cause error) *refusal {
	return &refusal{
		Decision: webhooks.Undecided, Reason: reasonNoBase, Message: fmt.Sprintf("its rules cannot be checked, because the base policy %s: ask the operator of "+
			"warrantgate to correct the ConfigMap %q of namespace %q, which keystonePolicy.base of its configuration names, and try again", why, object.Name, object.Namespace),
		Details: func() []any { return []any{"error", cause.Error()} },
	}
}

// files reads the base. The error is a *refusal.
func (b *Base) files(ctx context.Context) ([]*oslopolicy.File, error) {
	var files []*oslopolicy.File
	for _, object := range b.objects {
		configMap, err := b.client.ConfigMaps(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unreadable(object, "cannot be read", err)
		}
		sources := basePolicies(configMap, object.Keys)
		if len(sources) == 0 {
			return nil, unreadable(object, "is not under its keys", fmt.Errorf("the ConfigMap has no key of %q", object.Keys))
		}
		read, err := oslopolicy.ReadAll(sources)
		switch {
		case errors.Is(err, oslopolicy.ErrLimit):
			return nil, unreadable(object, "is larger than warrantgate reads", err)
		case err != nil:
			return nil, unreadable(object, "cannot be loaded by Keystone", err)
		}
		files = append(files, read...)
	}
	return files, nil
}

// basePolicies returns the policies of a ConfigMap in the order of keys, all that Keystone loads in the order of their names if there are no keys.
// It returns none if one of the keys is missing.
func basePolicies(configMap *corev1.ConfigMap, keys []string) []oslopolicy.Source {
	if len(keys) == 0 {
		keys = slices.DeleteFunc(slices.Sorted(maps.Keys(configMap.Data)), func(key string) bool { return !oslopolicy.Loads(key) })
	}
	sources := make([]oslopolicy.Source, 0, len(keys))
	for _, key := range keys {
		text, ok := configMap.Data[key]
		if !ok {
			return nil
		}
		sources = append(sources, oslopolicy.Source{Name: "base " + configMap.Namespace + "/" + configMap.Name + "/" + key, Data: []byte(text)})
	}
	return sources
}

// Start logs once if the base cannot be read, because otherwise the operator would not notice it before the next policy is written.
func (b *Base) Start(ctx context.Context) error {
	if _, err := b.files(ctx); err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "the base of Keystone policies cannot be read; no policy can be changed until then")
	}
	return nil
}
