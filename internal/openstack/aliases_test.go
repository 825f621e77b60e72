package openstack_test

import (
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
			names, _ := openstack.CloudsIn(map[string][]byte{"clouds.yaml": []byte(yaml)})
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc); took > limit || len(names) > 0 {
				t.Errorf("%d bytes take %d MiB, more than %d; clouds %q", len(yaml), took>>20, limit>>20, names)
			}
		})
	}
}

// Users write anchors for fields that their clouds have in common.
func TestAliasesOfUsers(t *testing.T) {
	const yaml = "common: &common {auth_url: https://keystone.example:5000/v3}\nclouds:\n  a: {auth: {<<: *common, user_id: a}}\n  b: {auth: *common}\n"
	names, urls := openstack.CloudsIn(map[string][]byte{"clouds.yaml": []byte(yaml)})
	if strings.Join(names, " ") != "a b" || strings.Join(urls, " ") != "https://keystone.example:5000" {
		t.Errorf("CloudsIn() = %q, %q", names, urls)
	}
}
