package kcp_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/kcp"
)

func TestRefusedUser(t *testing.T) {
	refusal := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "tenancy.kcp.io", Resource: "workspacetypes"}, "team", errors.New(message))
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a service account": {
			err: refusal(`User "system:serviceaccount:default:bot" cannot get resource "workspacetypes" in API group "tenancy.kcp.io" ` +
				`at the cluster scope: access denied`),
			want: "system:serviceaccount:default:bot",
		},
		"a refusal that is wrapped":         {err: fmt.Errorf("read it: %w", refusal(`User "alice" cannot get path "/": access denied`)), want: "alice"},
		"a name with quotes":                {err: refusal(`User "al\"ice\" cannot \\" cannot get resource "x"`), want: `al"ice" cannot \`},
		"a name that cannot be read":        {err: refusal(`User "al\ice" cannot get resource "x"`)},
		"a refusal that names nobody":       {err: refusal("no permission")},
		"an error that is no refusal":       {err: errors.New(`User "alice" cannot get resource "x"`)},
		"a name that is only a part of one": {err: refusal(`SuperUser "alice" cannot get resource "x"`)},
		"no error":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kcp.RefusedUser(tc.err); got != tc.want {
				t.Errorf("RefusedUser() = %q, want %q", got, tc.want)
			}
		})
	}
}
