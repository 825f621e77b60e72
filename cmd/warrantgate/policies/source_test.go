package policies

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

// entry is an entry of an archive.
type entry struct {
	name, content string
	mode          fs.FileMode
	flags         uint16
}

// archive returns a zip archive.
func archive(t *testing.T, entries ...entry) string {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Flags: e.flags}
		if e.mode != 0 {
			header.SetMode(e.mode)
		}
		file, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

// gzipped returns content that is compressed.
func gzipped(t *testing.T, content string) string {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, err := w.Write([]byte(content))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func TestReadSources(t *testing.T) {
	t.Chdir(t.TempDir())
	zipped := archive(t, entry{name: "a.yaml", content: "a"})
	inFile(t, "policy.json", "{}")
	for _, dir := range []string{"policy.d", "policy.d/below", "empty", "gzip.d", "manifests.d"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b.yaml", "a.yaml", "c.json", ".hidden", "below/x.yaml"} {
		inFile(t, filepath.Join("policy.d", name), "# "+name)
	}
	if err := os.Symlink("b.yaml", "policy.d/d.yaml"); err != nil {
		t.Fatal(err)
	}
	inFile(t, "overrides.zip", archive(t, entry{name: "dir/"}, entry{name: "dir/b.yml", content: "b"}, entry{name: "a.yaml", content: "a"}, entry{name: "README.md"}))
	var many []entry
	for i := range maxArchived + 1 {
		many = append(many, entry{name: fmt.Sprintf("%d.yaml", i)})
	}
	inFile(t, "many.zip", archive(t, many...))
	inFile(t, "none.ZIP", "x")
	inFile(t, "zipped", zipped)
	inFile(t, "policy.yaml.gz", gzipped(t, "a: role:admin"))
	inFile(t, "policy.tgz", gzipped(t, strings.Repeat("policy.yaml\x00", 1000)))
	inFile(t, "gzip.d/a.yaml", gzipped(t, "a: role:admin"))
	const (
		configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: policy}\ndata:\n  policy.yaml: |\n    a: role:admin\n"
		manifest  = `is the manifest of a Kubernetes object ("%s"), not a policy`
		instead   = manifest + "; give the policy in its data instead, as kubectl get %s NAME --namespace NAMESPACE --output jsonpath='{.data.policy\\.yaml}'%s | warrantgate lint keystone-policy -"
	)
	inFile(t, "manifests.d/configmap.yaml", configMap)
	inFile(t, "secret.json", `{"apiVersion": "v1", "kind": "Secret", "data": {"policy.yaml": "YQ=="}}`)
	inFile(t, "deployment.yaml", strings.ReplaceAll(configMap, "ConfigMap", "Deployment"))
	for name, tc := range map[string]struct {
		stdin   string
		want    []string
		wantErr string
	}{
		"manifests.d":          {wantErr: "manifests.d/configmap.yaml " + fmt.Sprintf(instead, "ConfigMap", "configmap", "")},
		"secret.json":          {wantErr: "secret.json " + fmt.Sprintf(instead, "Secret", "secret", " | base64 -d")},
		"deployment.yaml":      {wantErr: "deployment.yaml " + fmt.Sprintf(manifest, "Deployment")},
		"- with a manifest":    {stdin: configMap, wantErr: "stdin " + fmt.Sprintf(instead, "ConfigMap", "configmap", "")},
		"policy.json":          {want: []string{"policy.json: {}"}},
		"policy.d":             {want: []string{"policy.d/a.yaml: # a.yaml", "policy.d/b.yaml: # b.yaml", "policy.d/c.json: # c.json", "policy.d/d.yaml: # b.yaml"}},
		"overrides.zip":        {want: []string{"overrides.zip/a.yaml: a", "overrides.zip/dir/b.yml: b"}},
		"many.zip":             {wantErr: "many.zip has more than 100 policy files"},
		"none.ZIP":             {wantErr: "none.ZIP is not a readable zip archive: zip: not a valid zip file"},
		"zipped":               {want: []string{"zipped/a.yaml: a"}},
		"policy.yaml.gz":       {wantErr: "policy.yaml.gz is compressed with gzip, so that Keystone cannot read it; unpack it first"},
		"policy.tgz":           {wantErr: "policy.tgz is compressed with gzip, so that Keystone cannot read it; unpack it first"},
		"gzip.d":               {wantErr: "gzip.d/a.yaml is compressed with gzip, so that Keystone cannot read it; unpack it first"},
		"empty":                {wantErr: "empty has no policy files"},
		"missing":              {wantErr: "open missing: no such file or directory"},
		"-":                    {stdin: "a: role:admin", want: []string{"stdin: a: role:admin"}},
		"- with an archive":    {stdin: zipped, want: []string{"stdin/a.yaml: a"}},
		"- compressed":         {stdin: gzipped(t, "a"), wantErr: "stdin is compressed with gzip, so that Keystone cannot read it; unpack it first"},
		"- with a part of one": {stdin: zipped[:len(zipped)-4], wantErr: "stdin is not a readable zip archive: zip: not a valid zip file"},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs{stdin: strings.NewReader(tc.stdin)}
			name, _, _ := strings.Cut(name, " ")
			sources, err := in.readSources(name)
			if fmt.Sprint(err) != tc.wantErr && (err != nil || tc.wantErr != "") {
				t.Fatalf("error = %v, want %s", err, tc.wantErr)
			}
			var got []string
			for _, s := range sources {
				got = append(got, s.Name+": "+string(s.Data))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStandardInput: it is read by each command, in each place of a file, and once.
func TestStandardInput(t *testing.T) {
	const once = "standard input can be read only once: give - once"
	for name, tc := range map[string]called{
		"lint, the policy":            {args: []string{"-"}, stdin: "identity:create_user: rule:admin_required\n", wantOut: "stdin: nothing found; the gate admits it\n"},
		"lint, the base":              {args: []string{"policy.yaml", "--base=-"}, stdin: livePolicy, wantOut: "1 note (--notes)\npolicy.yaml: 1 note; the gate admits it\n"},
		"lint, both":                  {args: []string{"-", "--base=-"}, stdin: livePolicy, wantCode: cli.ExitUnknown, wantMessage: once},
		"lint, twice":                 {args: []string{"-", "-"}, stdin: livePolicy, wantOut: "1 note (--notes)\nstdin: 1 note; the gate admits it\n", wantCode: cli.ExitUnknown, wantMessage: once},
		"check, the policy":           {args: []string{"-", "--as=role=admin", "--can=identity:create_user"}, wantOut: "PASS\n"},
		"check, the cases":            {args: []string{"policy.yaml", "--base=live.json", "--cases=-"}, stdin: adminCase, wantOut: "1 cases, 0 failed\n"},
		"check, the policy and cases": {args: []string{"-", "--cases=-"}, wantCode: cli.ExitUnknown, wantMessage: once},
	} {
		t.Run(name, func(t *testing.T) {
			tc.policy, tc.files = "identity:create_user: rule:cloud_admin\n", map[string]string{"live.json": livePolicy}
			if strings.HasPrefix(name, "check") {
				tc.test(t, NewCheckCommand())
			} else {
				tc.test(t, NewLintCommand())
			}
		})
	}
}

const adminCase = "cases:\n- {name: an administrator, as: \"role=admin,project=p,admin-project=true\", can: identity:create_user, expect: PASS}\n"

// TestMaliciousArchives checks that no malicious archive is treated as a policy, and that none is unpacked beyond the size of a policy.
func TestMaliciousArchives(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []entry
		want    string
	}{
		"a path above":          {[]entry{{name: "../policy.yaml"}}, `overrides.zip: "../policy.yaml" is not a path within the archive`},
		"a path from the root":  {[]entry{{name: "/etc/policy.yaml"}}, `overrides.zip: "/etc/policy.yaml" is not a path within the archive`},
		"a path of Windows":     {[]entry{{name: `..\policy.yaml`}}, `overrides.zip: "..\\policy.yaml" is not a path within the archive`},
		"a name with a newline": {[]entry{{name: "a\n.yaml"}}, `overrides.zip: "a\n.yaml" is not a path within the archive`},
		"a link":                {[]entry{{name: "a.yaml", content: "/etc/passwd", mode: fs.ModeSymlink | 0o777}}, `overrides.zip: "a.yaml" is not a regular file`},
		"a device":              {[]entry{{name: "a.yaml", mode: fs.ModeDevice | 0o777}}, `overrides.zip: "a.yaml" is not a regular file`},
		"encrypted":             {[]entry{{name: "a.yaml", flags: 1}}, `overrides.zip: "a.yaml" is encrypted`},
		"a template":            {[]entry{{name: "a.yaml"}, {name: "b.j2"}}, `overrides.zip: "b.j2" is a template; the policy that the charm renders from it is unknown`},
		"two of the same name":  {[]entry{{name: "a.yaml"}, {name: "x/a.yml"}}, `overrides.zip: "a.yaml" and "x/a.yml" become the same file of policy.d`},
		"no policy":             {[]entry{{name: "a.txt"}}, "overrides.zip has no policy files"},
		"too much when unpacked": {
			[]entry{{name: "a.yaml", content: strings.Repeat("#", 100<<20)}},
			`overrides.zip/a.yaml: it has more than 262144 bytes: a limit of warrantgate, not of oslo.policy`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			message, files := "--base: "+tc.want, map[string]string{"overrides.zip": archive(t, tc.entries...)}
			called{files: files, wantCode: cli.ExitUnknown, wantMessage: message}.test(t, NewLintCommand(), "policy.yaml", "--base=overrides.zip")
			called{files: files, wantCode: cli.ExitUnknown, wantMessage: message}.test(t, NewCheckCommand(), "policy.yaml", "--base=overrides.zip", "--as=role=admin", "--can=x")
		})
	}
}

const livePolicy = `{"cloud_admin": "role:admin and is_admin_project:True", "identity:delete_user": "rule:cloud_admin"}`

func TestLintOverABase(t *testing.T) {
	const (
		override = "identity:create_user: rule:cloud_admin or rule:admin_required\n"
		nothing  = "policy.yaml: nothing found; the gate admits it\n"
		unknown  = "policy.yaml:1 identity:create_user\n  error unknown-rule: there is no rule \"cloud_admin\", which counts as false\n\n"
		denied   = "policy.yaml: 1 error; the gate denies it (KeystonePolicyBroken)\n"
		note     = "1 note (--notes)\n"
	)
	for name, tc := range map[string]called{
		"none":                           {args: []string{"policy.yaml"}, wantOut: unknown + denied, wantCode: cli.ExitWrong},
		"a file":                         {args: []string{"policy.yaml", "--base", "live.json"}, wantOut: nothing},
		"a directory":                    {args: []string{"policy.yaml", "--base=policy.d"}, wantOut: nothing},
		"an archive":                     {args: []string{"policy.yaml", "--base=live.zip"}, wantOut: nothing},
		"several":                        {args: []string{"policy.yaml", "--base=empty.yaml", "--base=live.json"}, wantOut: nothing},
		"over another":                   {args: []string{"live.json", "policy.yaml"}, wantOut: unknown + note + "live.json: 1 note; the gate admits it\n" + denied, wantCode: cli.ExitWrong},
		"a directory is linted together": {args: []string{"both"}, wantOut: note + "both: 1 note; the gate admits it\n"},
		"an archive is linted together":  {args: []string{"both.zip"}, wantOut: note + "both.zip: 1 note; the gate admits it\n"},
		// The gate checks all keys of an object together, and fewer than the command reads.
		"a directory that is too large for the gate": {
			args: []string{"large", "--base=policy.d"}, wantOut: "large: nothing found; the gate denies it (KeystonePolicyTooLarge)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			large := override + strings.Repeat("#", 200<<10)
			tc.policy, tc.files = override, map[string]string{
				"live.json": livePolicy, "policy.d/live.json": livePolicy, "empty.yaml": "# nothing\n", "both/a.yaml": override, "both/b.json": livePolicy,
				"live.zip": archive(t, entry{name: "live.yaml", content: livePolicy}), "large/a.yaml": large, "large/b.yaml": strings.Repeat("#", 100<<10),
				"both.zip": archive(t, entry{name: "a.yaml", content: override}, entry{name: "b.yaml", content: livePolicy}),
			}
			tc.test(t, NewLintCommand())
		})
	}
}
