//go:build e2e

package install_test

import (
	"context"
	"reflect"
	"slices"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// ContainEverythingOf succeeds if the actual value contains all fields of wanted. It can contain more: the API server sets defaults
// and adds fields.
func ContainEverythingOf(wanted any) types.GomegaMatcher {
	return WithTransform(func(actual any) bool { return contains(actual, wanted) }, BeTrue())
}

func contains(actual, wanted any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		a, ok := actual.(map[string]any)
		for key, value := range w {
			ok = ok && contains(a[key], value)
		}
		return ok
	case []any:
		a, ok := actual.([]any)
		ok = ok && len(a) == len(w)
		for i := 0; ok && i < len(w); i++ {
			ok = contains(a[i], w[i])
		}
		return ok
	default:
		return reflect.DeepEqual(actual, wanted) || numbersEqual(actual, wanted)
	}
}

// numbersEqual compares numbers of the types that YAML and JSON decoders return.
func numbersEqual(a, b any) bool {
	float := reflect.TypeFor[float64]()
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	return va.IsValid() && vb.IsValid() && va.CanConvert(float) && vb.CanConvert(float) &&
		va.Convert(float).Float() == vb.Convert(float).Float()
}

// createAs creates a workspace in root:provider and waits until it is Ready.
func createAs(ctx context.Context, creator *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, creator, name)
	ws := suite.WaitReady(ctx, provider, name)
	return ws
}

// eventReasons returns the reasons of the Events of a Workspace without duplicates, for Eventually. There is an Event for each try
// of kcp's scheduler, which tries again if its cache was outdated.
func eventReasons(ctx context.Context, ws *tenancyv1alpha1.Workspace) func() ([]string, error) {
	return func() ([]string, error) {
		events, err := kcptest.Events(ctx, provider, ws)
		var reasons []string
		for i := range events {
			reasons = append(reasons, events[i].Reason)
		}
		slices.Sort(reasons)
		return slices.Compact(reasons), err
	}
}
