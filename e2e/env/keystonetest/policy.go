package keystonetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/e2e/env/process"
)

// SetPolicy replaces the override of Keystone's own rules, in YAML or JSON: the policy file, and the files of the directory policy.d, which
// Keystone loads after it in this order. nil is no override. The new policy applies to all requests after the return. It returns an error
// if Keystone cannot load the policy: oslo.policy then keeps the former rules. This check requires that no other request reaches Keystone
// at the same time.
func (k *Keystone) SetPolicy(ctx context.Context, policy []byte, directory ...[]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.writePolicyDirectory(directory); err != nil {
		return err
	}
	if err := k.writePolicy(policy); err != nil {
		return err
	}
	return k.applyPolicy(ctx)
}

// writePolicyDirectory replaces the files of policy.d. oslo.policy reads all of them again if the policy file has changed.
func (k *Keystone) writePolicyDirectory(files [][]byte) error {
	dir := k.file(policyDirectory)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i, file := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.yaml", i)), file, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writePolicy replaces the whole file. oslo.policy checks the modification time at every request and reads the file again if the
// time has increased.
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
