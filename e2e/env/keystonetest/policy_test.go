package keystonetest

import (
	"os"
	"testing"
	"time"
)

func TestPolicyModificationTimeIncreases(t *testing.T) {
	k := &Keystone{options: Options{Dir: t.TempDir()}, policyTime: time.Now().Add(time.Hour)}
	for last, i := k.policyTime, 0; i < 20; i++ {
		if err := k.writePolicy([]byte("a: role:b\n")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(k.file("policy.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().After(last) {
			t.Fatalf("the modification time of the policy is %s after %s", info.ModTime(), last)
		}
		last = info.ModTime()
	}
}

func TestPolicyThatOverridesNothing(t *testing.T) {
	k := &Keystone{options: Options{Dir: t.TempDir()}}
	if err := k.writePolicy(nil); err != nil {
		t.Fatal(err)
	}
	if policy, err := os.ReadFile(k.file("policy.yaml")); err != nil || string(policy) != "{}\n" {
		t.Errorf("policy = %q, %v, want an empty mapping", policy, err)
	}
}
