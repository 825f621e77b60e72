package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMeasurementsAreChosenByName(t *testing.T) {
	all, err := choose(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		names     []string
		want      []string
		wantError string
	}{
		"one":                          {names: []string{"serve"}, want: []string{"serve"}},
		"several, in the order of all": {names: []string{"serve,start"}, want: []string{"start", "serve"}},
		"several words":                {names: []string{"workspaces", "rewrite"}, want: []string{"rewrite", "workspaces"}},
		"all, without names":           {names: []string{""}, want: namesOf(all)},
		"an unknown name":              {names: []string{"start,speed"}, wantError: `there is no measurement "speed"; choose among rewrite, policy, start, serve, writes, machines, workspaces, policies, repair`},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(tc.names)
			if err != nil || tc.wantError != "" {
				if diff := cmp.Diff(tc.wantError, errorText(err)); diff != "" {
					t.Errorf("choose() error (-want +got):\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(tc.want, namesOf(chosen)); diff != "" {
				t.Errorf("choose() (-want +got):\n%s", diff)
			}
		})
	}
}

func namesOf(chosen []measurement) []string {
	names := make([]string, len(chosen))
	for i, m := range chosen {
		names[i] = m.name
	}
	return names
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
