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
	denial := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "tenancy.kcp.io", Resource: "workspacetypes"}, "team", errors.New(message))
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a service account": {
			err: denial(`User "system:serviceaccount:default:bot" cannot get resource "workspacetypes" in API group "tenancy.kcp.io" ` +
				`at the cluster scope: access denied`),
			want: "system:serviceaccount:default:bot",
		},
		"a wrapped denial":               {err: fmt.Errorf("read it: %w", denial(`User "alice" cannot get path "/": access denied`)), want: "alice"},
		"a name with quotes":             {err: denial(`User "al\"ice\" cannot \\" cannot get resource "x"`), want: `al"ice" cannot \`},
		"a name that cannot be unquoted": {err: denial(`User "al\ice" cannot get resource "x"`)},
		"a denial without a user":        {err: denial("no permission")},
		"an error that is not Forbidden": {err: errors.New(`User "alice" cannot get resource "x"`)},
		"a word that ends in User":       {err: denial(`SuperUser "alice" cannot get resource "x"`)},
		"no error":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kcp.DeniedUser(tc.err); got != tc.want {
				t.Errorf("DeniedUser() = %q, want %q", got, tc.want)
			}
		})
	}
}
