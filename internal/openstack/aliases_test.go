package openstack_test

import (
	"maps"
	"runtime"
	"strings"
	"testing"

	"warrantgate.dev/internal/openstack"
)

// An alias of a long text takes two bytes in a clouds.yaml, and as many bytes as the text in JSON.
func TestAliasesOfLongTextsTakeNoMemory(t *testing.T) {
	const size, limit = 30 << 10, 16 << 20
	long := strings.Repeat("x", size)
	for name, yaml := range map[string]string{
		"of one text": "a: &a " + long + "\nclouds: [" + strings.Repeat("*a,", 9000) + "]\n",
		"nested": "a: &a " + long + "\nb: &b [" + strings.TrimSuffix(strings.Repeat("*a,", 100), ",") + "]\nclouds: [" +
			strings.TrimSuffix(strings.Repeat("*b,", 100), ",") + "]\n",
		"as keys": "a: &a " + long + "\nclouds:\n" + strings.Repeat("- {*a : 1}\n", 2500),
		"merged":  "a: &a {x: " + long + "}\nclouds:\n" + strings.Repeat("- {<<: *a}\n", 2500),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			clouds := openstack.CloudsIn(map[string][]byte{"clouds.yaml": []byte(yaml)})
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc); took > limit || len(clouds) > 0 {
				t.Errorf("%d bytes take %d MiB, more than %d; clouds %q", len(yaml), took>>20, limit>>20, clouds)
			}
		})
	}
}

// Users write anchors for fields that their clouds have in common.
func TestAliasesOfUsers(t *testing.T) {
	const yaml = "common: &common {auth_url: https://keystone.example:5000/v3}\nclouds:\n  a: {auth: {<<: *common, user_id: a}}\n  b: {auth: *common}\n"
	const url = "https://keystone.example:5000"
	if got := openstack.CloudsIn(map[string][]byte{"clouds.yaml": []byte(yaml)}); !maps.Equal(got, map[string]string{"a": url, "b": url}) {
		t.Errorf("CloudsIn() = %q", got)
	}
}
