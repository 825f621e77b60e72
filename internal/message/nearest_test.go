package message

import "testing"

func TestNearest(t *testing.T) {
	for name, tc := range map[string]struct {
		name  string
		names []string
		want  string
	}{
		"one letter replaced":                                       {"role", []string{"user", "rule"}, "rule"},
		"never the name itself":                                     {"role", []string{"role", "rule"}, "rule"},
		"a third of the letters, replaced":                          {"domain", []string{"dxmxin"}, "dxmxin"},
		"a third of the letters, inserted":                          {"domain", []string{"domain_i"}, "domain_i"},
		"a third of the letters, dropped":                           {"domain", []string{"doma"}, "doma"},
		"more than a third":                                         {"domain", []string{"dxmxxn", "domain_id", "dom"}, ""},
		"three of many":                                             {"identity:create_user", []string{"identity:create_usxxxx", "identity:create_u"}, "identity:create_u"},
		"more than three of many":                                   {"identity:create_user", []string{"identity:create_xxxx", "identity:create_"}, ""},
		"of two, the nearer, which is first":                        {"identity:create_user", []string{"identity:create_usr", "identity:create_us"}, "identity:create_usr"},
		"of two, the nearer, which is last":                         {"identity:create_user", []string{"identity:create_us", "identity:create_usr"}, "identity:create_usr"},
		"of two as near, the first in the alphabet, which is first": {"user", []string{"usea", "useb"}, "usea"},
		"of two as near, the first in the alphabet, which is last":  {"user", []string{"useb", "usea"}, "usea"},
		"short names have no suggestions":                           {"ab", []string{"ac", "abc", "a"}, ""},
		"nothing to choose from":                                    {"role", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(tc.name, tc.names); got != tc.want {
				t.Errorf("Nearest() = %q, want %q", got, tc.want)
			}
		})
	}
}
