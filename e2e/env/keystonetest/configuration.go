package keystonetest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"warrantgate.dev/e2e/servers/keystone"
)

// AdminProject is a section of keystone.conf, for Start, that makes the project of the administrator the admin project.
// Without it, every project is the admin project for Keystone: is_admin_project:True is then true for each token of a project.
const AdminProject = `[resource]
admin_project_name = admin
admin_project_domain_name = Default
`

// policyDirectory is the name of the directory for further policies.
const policyDirectory = "policy.d"

// keyBytes is the length of a fernet key.
const keyBytes = 32

// configuration is the keystone.conf of a Keystone with all data in dir. The content of extra comes last and overrides the rest.
func configuration(dir, extra string) string {
	return fmt.Sprintf(`[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///%[1]s/keystone.db
# Nothing has to be on the disk when Keystone has ended.
sqlite_synchronous = false
[cache]
# Without a cache the check of a token costs half a second. One in memory works only for a single process.
enabled = true
backend = dogpile.cache.memory
[token]
# a day: tests of thousands of policies take longer than the default of an hour
expiration = 86400
[fernet_tokens]
key_repository = %[1]s/fernet-keys
[fernet_receipts]
# Otherwise Keystone reads keys in /etc, and creates them there if it runs as root.
key_repository = %[1]s/fernet-keys
[credential]
key_repository = %[1]s/credential-keys
[identity]
# The least that bcrypt takes.
password_hash_rounds = 4
[oslo_policy]
policy_file = %[1]s/policy.yaml
policy_dirs = %[1]s/%[3]s
enforce_scope = false
enforce_new_defaults = false
%[2]s`, dir, extra, policyDirectory)
}

// writeFiles writes the files of Keystone into dir: its configuration, its keys and an empty folder for policies.
func writeFiles(dir, extraConf string) error {
	if err := os.MkdirAll(filepath.Join(dir, policyDirectory), 0o700); err != nil {
		return err
	}
	for _, repository := range []string{"fernet-keys", "credential-keys"} {
		if err := writeKeys(filepath.Join(dir, repository)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "serve.py"), keystone.Serve, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "keystone.conf"), []byte(configuration(dir, extraConf)), 0o600)
}

// writeKeys creates a staged key, 0, and a primary one, 1, as "keystone-manage fernet_setup" and "credential_setup" do. These take
// more than a second each.
func writeKeys(repository string) error {
	if err := os.MkdirAll(repository, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"0", "1"} {
		key := make([]byte, keyBytes)
		_, _ = rand.Read(key) // it never fails
		if err := os.WriteFile(filepath.Join(repository, name), []byte(base64.URLEncoding.EncodeToString(key)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
