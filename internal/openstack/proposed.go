package openstack

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"warrantgate.dev/internal/ownership"
)

// WithSecret returns a Cloud that uses the given data for a Secret, before it is stored. It shares tokens and connections with c.
func (c *Cloud) WithSecret(namespace, name string, data map[string][]byte) *Cloud {
	proposed := *c
	proposed.secrets = func(ctx context.Context, inNamespace, named string) (map[string][]byte, error) {
		if inNamespace == namespace && named == name {
			return data, nil
		}
		return c.secrets(ctx, inNamespace, named)
	}
	return &proposed
}

// ChangedClouds returns the names of the clouds that a write adds to the clouds.yaml of a Secret or changes. The error is an
// *ownership.IdentityError.
func ChangedClouds(secret string, before, after map[string][]byte) ([]string, error) {
	if len(after[cloudsKey]) == 0 {
		return nil, nil
	}
	now, problem := readClouds(after)
	if problem != "" {
		return nil, &ownership.IdentityError{Reason: IdentityMalformed, Message: fmt.Sprintf("Secret %q: %s", secret, problem)}
	}
	was, _ := readClouds(before) // an invalid file counts as empty
	var changed []string
	for name := range now {
		if !reflect.DeepEqual(was[name], now[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, nil
}
