package openstack

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"warrantgate.dev/internal/ownership"
)

// WithSecret returns the OpenStack that would be asked if a Secret had this data, for data that is not stored yet. It shares
// its tokens and connections with c.
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

// ChangedClouds returns the names of the clouds that the clouds.yaml of a Secret has after a write and that it did not have
// before, or not as it has them now. The error is an *ownership.IdentityError.
func ChangedClouds(secret string, before, after map[string][]byte) ([]string, error) {
	if len(after[cloudsKey]) == 0 {
		return nil, nil
	}
	now, problem := readClouds(after)
	if problem != "" {
		return nil, &ownership.IdentityError{Reason: IdentityMalformed, Message: fmt.Sprintf("Secret %q: %s", secret, problem)}
	}
	was, _ := readClouds(before) // what was wrong before is judged as if it had not been there
	var changed []string
	for name := range now {
		if !reflect.DeepEqual(was[name], now[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, nil
}
