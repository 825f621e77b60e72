package gates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestLabelsPicked(t *testing.T) {
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     map[string]string
	}{
		"none": {nil, nil},
		"all kinds": {
			&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "c", Operator: metav1.LabelSelectorOpIn, Values: []string{"d", "e"}},
				{Key: "f", Operator: metav1.LabelSelectorOpExists},
				{Key: "g", Operator: metav1.LabelSelectorOpDoesNotExist},
				{Key: "h", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"i"}},
				{Key: "a", Operator: metav1.LabelSelectorOpExists},
			}},
			map[string]string{"a": "b", "c": "d", "f": "canary"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := labelsPicked(tc.selector)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labelsPicked() (-want +got):\n%s", diff)
			}
			if selector, _ := metav1.LabelSelectorAsSelector(tc.selector); tc.selector != nil && !selector.Matches(labels.Set(got)) {
				t.Errorf("%v is not selected", got)
			}
		})
	}
}
