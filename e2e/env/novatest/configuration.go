package novatest

import (
	"fmt"
	"os"
	"path/filepath"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/servers/nova"
)

// configuration is the nova.conf of a Nova with all data in dir. Keystone verifies its tokens, and its control port responds as
// Neutron.
func configuration(dir, authURL string, user keystonetest.User, projectID, controlURL string) string {
	return fmt.Sprintf(`[DEFAULT]
use_stderr = true
state_path = %[1]s
my_ip = 127.0.0.1
host = localhost
transport_url = fake:/
[api_database]
connection = sqlite:///%[1]s/api.db
# Nothing has to be on the disk when Nova has ended.
sqlite_synchronous = false
[database]
connection = sqlite:///%[1]s/cell1.db
sqlite_synchronous = false
[oslo_concurrency]
lock_path = %[1]s/locks
[oslo_policy]
policy_file = %[1]s/policy.yaml
[neutron]
endpoint_override = %[6]s/neutron
[keystone_authtoken]
www_authenticate_uri = %[2]s
auth_url = %[2]s
auth_type = password
user_domain_id = %[3]s
username = %[4]s
password = %[5]s
project_id = %[7]s
service_token_roles_required = true
`, dir, authURL, user.DomainID, user.Name, user.Password, controlURL, projectID)
}

// writeFiles writes the files of Nova into dir.
func writeFiles(dir, configuration string) error {
	for name, content := range map[string][]byte{
		"nova.conf": []byte(configuration), "api-paste.ini": nova.APIPaste, "serve.py": nova.Serve, "policy.yaml": []byte("{}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
