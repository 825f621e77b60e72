package keystonetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/e2e/env/process"
)

// SetPolicy replaces the override of Keystone's own rules, in YAML or JSON; nil is no override. All requests that come after
// its return are judged by the new policy. It is an error if Keystone cannot load it: oslo.policy goes on with the former
// rules then. That is noticed only if nobody else asks Keystone meanwhile.
func (k *Keystone) SetPolicy(ctx context.Context, policy []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.writePolicy(policy); err != nil {
		return err
	}
	return k.applyPolicy(ctx)
}

// writePolicy replaces the file as a whole. oslo.policy looks at its modification time at every request and reads it again if
// that has grown.
func (k *Keystone) writePolicy(policy []byte) error {
	if len(policy) == 0 {
		policy = []byte("{}\n")
	}
	next := k.file("policy.yaml.next")
	if err := os.WriteFile(next, policy, 0o600); err != nil {
		return err
	}
	modified := time.Now()
	if earliest := k.policyTime.Add(time.Millisecond); modified.Before(earliest) {
		modified = earliest
	}
	k.policyTime = modified
	if err := os.Chtimes(next, modified, modified); err != nil {
		return err
	}
	return os.Rename(next, k.file("policy.yaml"))
}

// applyPolicy sends a request that the policy allows or denies. If Keystone cannot load a policy, it reports this only in the
// response to the first request, with 400 or 500.
func (k *Keystone) applyPolicy(ctx context.Context) error {
	response, err := k.admin.Get(ctx, k.admin.ServiceURL("regions"), nil, &gophercloud.RequestOpts{
		OkCodes: []int{http.StatusOK, http.StatusForbidden},
	})
	if err != nil {
		return fmt.Errorf("Keystone cannot load the policy: %w\n%s", err, process.LogTail(k.LogFile()))
	}
	return response.Body.Close()
}
