package policies

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestCheckEvents(t *testing.T) {
	const (
		notIn   = "root:grouped: NOT PERMITTED\n  "
		cause   = " may write Events in root, and not here: the workspace requires groups, or is on a shard whose kubeconfig was not given to `warrantgate install kcp --shard-kubeconfig`"
		command = "\n  if it requires groups, an administrator adds a clause with the group, here and in the workspaces below, which got a copy when they were created:\n" +
			"    kubectl ws root:grouped\n" +
			"    kubectl annotate logicalclusters cluster --overwrite authorization.kcp.io/required-groups=\"$(kubectl get logicalclusters cluster " +
			"-o jsonpath='{.metadata.annotations.authorization\\.kcp\\.io/required-groups}');"
		nowhere = "  neither here nor in root; grant it with `warrantgate install kcp --shard-kubeconfig`, once for each shard\n"
	)
	for name, tc := range map[string]struct {
		// access are the status codes of the permission checks by workspace. With 200 the user may write Events, with 201 only
		// enter the workspace.
		access map[string]int
		// trial is the response to an Event. Default: 201.
		trial    metav1.Status
		user     string
		args     []string
		want     string
		wantCode int
	}{
		"where it is permitted": {
			access: map[string]int{"root": 200, "root:grouped": 200}, args: []string{"root", "root:grouped"}, want: "root: ok\nroot:grouped: ok\n",
		},
		"where groups are required, by a user without a group": {
			access: map[string]int{"root": 200, "root:grouped": 403}, user: `"username":"warrantgate","groups":["system:authenticated"]`,
			args: []string{"root:grouped"}, wantCode: 1,
			want: notIn + `user "warrantgate" with the groups system:authenticated` + cause + "\n  first give it a group of its own: with a client certificate, O=warrantgate-events" +
				command + "warrantgate-events\"\n",
		},
		"where groups are required, by a user with a group": {
			access: map[string]int{"root": 200, "root:grouped": 403}, user: `"username":"warrantgate","groups":["system:authenticated","eventers"]`,
			args: []string{"root:grouped"}, wantCode: 1,
			want: notIn + `user "warrantgate" with the groups system:authenticated, eventers` + cause + command + "eventers\"\n",
		},
		"where groups are required, and kcp does not return the user": {
			access: map[string]int{"root": 200, "root:grouped": 403}, args: []string{"root:grouped"}, wantCode: 1,
			want: notIn + "the user of serve" + cause + command + "warrantgate-events\"\n",
		},
		"without any permission": {
			access: map[string]int{"root": 403, "root:grouped": 403}, args: []string{"root", "root:grouped"}, wantCode: 1,
			want: "root: NOT PERMITTED\n" + nowhere + "root:grouped: NOT PERMITTED\n" + nowhere,
		},
		"with access, and without the permission": {
			access: map[string]int{"root": 201, "root:grouped": 201}, args: []string{"root:grouped"}, want: "root:grouped: NOT PERMITTED\n" + nowhere, wantCode: 1,
		},
		"without a namespace for Events": {
			access: map[string]int{"root": 200, "root:bare": 200}, trial: apierrors.NewNotFound(corev1.Resource("namespaces"), "default").ErrStatus, args: []string{"root:bare"}, wantCode: 1,
			want: "root:bare: NO NAMESPACE\n  Events would be in namespace \"default\", which a workspace has if its type extends universal; create it:\n" +
				"    kubectl ws root:bare\n    kubectl create namespace default\n",
		},
		"where a webhook denies a dry run": {
			access: map[string]int{"root": 200}, trial: apierrors.NewBadRequest("\x1b[2Jroot: ok\n" + strings.Repeat("x", 1000)).ErrStatus, args: []string{"root"}, wantCode: 2,
			want: "root: UNKNOWN\n  an Event could not be tried: \\x1b[2Jroot: ok\\n" + strings.Repeat("x", 480) + "…\n",
		},
		"a workspace that does not exist, and one without permission": {
			access: map[string]int{"root": 200, "root:grouped": 403, "root:gone": 404}, args: []string{"root:gone", "root:grouped"}, wantCode: 1,
			want: "root:gone: UNKNOWN\n  the permission in root:gone could not be checked: the server could not find the requested resource " +
				"(post selfsubjectaccessreviews.authorization.k8s.io)\n" + notIn + "the user of serve" + cause + command + "warrantgate-events\"\n",
		},
		"an invalid path": {
			access: map[string]int{"root": 200}, args: []string{"../root"}, wantCode: 2,
			want: "../root: UNKNOWN\n  \"../root\" is not the path of a workspace\n",
		},
		"a kcp that does not respond": {access: map[string]int{"root": 500}, args: []string{"root"}, wantCode: 2},
		"no workspace":                {wantCode: 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				workspace, resource, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/clusters/"), "/api")
				code := tc.access[workspace]
				switch {
				case resource == "/v1/namespaces/default/events" && r.URL.Query().Get("dryRun") == "All":
					w.WriteHeader(cmp.Or(int(tc.trial.Code), http.StatusCreated))
					trial := tc.trial
					trial.TypeMeta, trial.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, cmp.Or(trial.Status, metav1.StatusSuccess)
					_ = json.NewEncoder(w).Encode(trial)
				case strings.HasPrefix(resource, "s/authentication.k8s.io/") && tc.user == "":
					w.WriteHeader(http.StatusForbidden)
				case strings.HasPrefix(resource, "s/authentication.k8s.io/"):
					_, _ = w.Write([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{` + tc.user + `}}}`))
				case strings.HasPrefix(resource, "s/authorization.k8s.io/") && (code == http.StatusOK || code == http.StatusCreated):
					_ = json.NewEncoder(w).Encode(map[string]any{
						"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": code == http.StatusOK},
					})
				default:
					w.WriteHeader(code)
				}
			}))
			defer server.Close()
			kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"kcp": server.URL + "/clusters/root"})
			out, code, _ := runCommand(t, newCheckEventsCommand(), append([]string{"--kubeconfig=" + kubeconfig, "--context=kcp"}, tc.args...)...)
			if diff := gocmp.Diff(tc.want, out); diff != "" || code != tc.wantCode {
				t.Errorf("code %d, want %d (-want +got):\n%s", code, tc.wantCode, diff)
			}
		})
	}
}
