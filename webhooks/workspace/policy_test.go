package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
	"warrantgate.dev/webhooks/workspace"
)

// openAPIClient is a client of an API server with a schema for Workspaces, which the plugin requests.
type openAPIClient struct{ kubernetes.Interface }

type openAPIDiscovery struct {
	clientdiscovery.DiscoveryInterface
}

func (c openAPIClient) Discovery() clientdiscovery.DiscoveryInterface {
	return openAPIDiscovery{c.Interface.Discovery()}
}

func (openAPIDiscovery) OpenAPIV3() openapi.Client {
	return openapitest.FakeClient{PathsMap: map[string]openapi.GroupVersion{"apis/tenancy.kcp.io/v1alpha1": workspaceSchema{
		openapitest.FakeGroupVersion{GVSpec: []byte(`{"openapi":"3.0.0","info":{"title":"kcp","version":"v0.32"},"paths":{},` +
			`"components":{"schemas":{"workspace":{"type":"object",` +
			`"x-kubernetes-group-version-kind":[{"group":"tenancy.kcp.io","version":"v1alpha1","kind":"Workspace"}]}}}}`)},
	}}}
}

type workspaceSchema struct{ openapitest.FakeGroupVersion }

func (workspaceSchema) ServerRelativeURL() string { return "openapi/v3/apis/tenancy.kcp.io/v1alpha1" }

// mutator is the admission plugin MutatingAdmissionPolicy of the API server, with the policies of this package.
type mutator struct {
	plugin     *mutating.Plugin
	interfaces admission.ObjectInterfaces
	// webhook is the gate OwnerRewrite, notice the gate OwnerNotice and denial the gate DenialNotice as they are registered besides the policies.
	webhook, notice, denial webhook.WebhookAccessor
	compiler                celplugin.ConditionCompiler
}

func newMutator(tb testing.TB) *mutator {
	tb.Helper()
	plugin, err := mutating.NewPlugin(nil)
	if err != nil {
		tb.Fatal(err)
	}
	plugin.SetEnabled(true)
	m := &mutator{
		plugin: plugin, interfaces: admission.NewObjectInterfacesFromScheme(apiruntime.NewScheme()),
		compiler: celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
	}
	for _, object := range workspace.RegistrationWithPolicy(webhooks.Server{URL: "https://h"}, v1beta1.Default().Workspace) {
		if configuration, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			m.webhook = webhook.NewMutatingWebhookAccessor("", configuration.Name, &configuration.Webhooks[0])
			m.denial = webhook.NewMutatingWebhookAccessor("", configuration.Name, &configuration.Webhooks[1])
		}
		if configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			for i := range configuration.Webhooks {
				if hook := &configuration.Webhooks[i]; hook.Name == "owner-notice.warrantgate.dev" {
					m.notice = webhook.NewValidatingWebhookAccessor("", configuration.Name, hook)
				}
			}
		}
	}
	honest := placement{owner: plainOwner("default", "bot", "1dz6n4ubraua7pul"), cluster: newCluster}
	webhookstest.StartPolicies(tb, plugin, webhookstest.PolicyOptions{
		Policies: workspace.MutatingPolicies(v1beta1.Default().Workspace), Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer(),
		Client: func(api kubernetes.Interface) kubernetes.Interface { return openAPIClient{api} },
		Evaluates: func(context.Context) error {
			handled, err := m.place(tb, honest) //nolint:contextcheck // it takes that of the test
			if err == nil && handled.by != byPolicy {
				err = fmt.Errorf("the owner of an honest service account is handled by %s", handled.by)
			}
			if restored := object(annotations(createdBy, "x")); err == nil {
				if err = m.write(tb, nil, restored, alice); err == nil && restored.GetAnnotations()[createdBy] != "" { //nolint:contextcheck // it takes that of the test
					err = errors.New("a Workspace with the annotation of a backup is not changed")
				}
			}
			return err
		},
	})
	return m
}

// write admits a write of a Workspace by the policies, which change it. old is nil if the Workspace is created.
func (m *mutator) write(tb testing.TB, old, written *unstructured.Unstructured, by user.Info) error {
	tb.Helper()
	operation, before := admission.Create, apiruntime.Object(nil)
	if old != nil {
		operation, before = admission.Update, old
	}
	attributes := admission.NewAttributesRecord(written, before, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "", "child",
		tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"), "", operation, nil, false, by)
	return m.plugin.Admit(tb.Context(), attributes, m.interfaces)
}

// placement is the update of kcp's scheduler that is admitted.
type placement struct {
	owner, cluster, requiredGroups string
	parent                         string    // the logical cluster that contains the Workspace; default: thisHome
	by                             user.Info // default: the API server
}

// in is the logical cluster that contains the Workspace.
func (p placement) in() string {
	if p.parent == "" {
		return thisHome
	}
	return p.parent
}

// thisHome is the home of the service accounts, and contains their Workspaces.
const thisHome = "1dz6n4ubraua7pul"

const (
	byPolicy  = "policy"
	byWebhook = "webhook"
	byNone    = "neither"
)

// handled is the result for the owner.
type handled struct {
	by     string
	object map[string]any // the Workspace after it
}

// place admits a placement as kcp does: first the webhook, as far as its conditions, and then the policies; and as Kubernetes does, in
// the other order.
func (m *mutator) place(tb testing.TB, p placement) (handled, error) {
	tb.Helper()
	before := map[string]any{ownerKey: p.owner, logicalcluster.AnnotationKey: p.in()}
	after := map[string]any{ownerKey: p.owner, logicalcluster.AnnotationKey: p.in(), clusterKey: p.cluster}
	if p.requiredGroups != "" {
		before[groupsKey], after[groupsKey] = p.requiredGroups, p.requiredGroups
	}
	if p.by == nil {
		p.by = apiServer
	}
	old, placed := object(before), object(after)
	attributes := admission.NewAttributesRecord(placed, old, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "", "child",
		tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"), "", admission.Update, nil, false, p.by)
	untouched := placed.DeepCopy()
	first := m.webhook.GetCompiledMatcher(m.compiler).Match(tb.Context(), versioned(untouched, old, admission.Update, p.by), nil, nil)
	if first.Error != nil {
		return handled{}, fmt.Errorf("conditions of the webhook: %w", first.Error)
	}
	if err := m.plugin.Admit(tb.Context(), attributes, m.interfaces); err != nil {
		return handled{}, err
	}
	result := handled{by: byNone, object: placed.Object}
	called := m.webhook.GetCompiledMatcher(m.compiler).Match(tb.Context(), versioned(placed, old, admission.Update, p.by), nil, nil)
	if called.Error != nil {
		return handled{}, fmt.Errorf("conditions of the webhook: %w", called.Error)
	}
	changed := !cmp.Equal(untouched.Object, placed.Object)
	left, report := identitytest.Rewrite(placed.GetAnnotations()[ownerKey], logicalcluster.Name(p.in()), logicalcluster.Name(p.cluster), p.requiredGroups, identity.Policy{})
	if called.Matches {
		annotations := placed.GetAnnotations()
		annotations[ownerKey] = left
		placed.SetAnnotations(annotations)
	}
	notice := m.notice.GetCompiledMatcher(m.compiler).Match(tb.Context(), versioned(placed, old, admission.Update, p.by), nil, nil)
	if notice.Error != nil {
		return handled{}, fmt.Errorf("conditions of the notice: %w", notice.Error)
	}
	if changed && !notice.Matches || called.Matches && report.Reason.Rewritten() && notice.Matches { // the webhook reports what it rewrites
		return handled{}, fmt.Errorf("changed by the policy %t, by the webhook %t, but reported %t: %s", changed, called.Matches, notice.Matches, p.owner)
	}
	switch {
	case first.Matches != called.Matches:
		return handled{}, fmt.Errorf("the webhook is called before the policy %t, after it %t: %s", first.Matches, called.Matches, p.owner)
	case changed && called.Matches:
		return handled{}, fmt.Errorf("handled by both policy and webhook: %s", p.owner)
	case changed:
		result.by = byPolicy
	case called.Matches:
		result.by = byWebhook
	}
	return result, nil
}

// check admits a placement and compares the result with the domain function. It returns whether the policy, the webhook or neither handled
// it.
func (m *mutator) check(tb testing.TB, p placement) string {
	tb.Helper()
	want, report := identitytest.Rewrite(p.owner, logicalcluster.Name(p.in()), logicalcluster.Name(p.cluster), p.requiredGroups, identity.Policy{})
	got, err := m.place(tb, p)
	switch {
	case err != nil:
		tb.Errorf("%.3000q: %v", p.owner, err)
	case got.by == byPolicy && (p.by == claimed || p.by == inExport):
		tb.Errorf("the policy rewrote an owner for one who claims to be kcp: %.3000q", p.owner)
	case got.by == byPolicy && !report.Changed():
		tb.Errorf("the policy changed an owner that identity.Rewrite does not (%s): %.3000q", report.Reason, p.owner)
	case got.by == byPolicy:
		// The whole Workspace, so that the policy changes nothing else.
		expected := map[string]any{ownerKey: want, logicalcluster.AnnotationKey: p.in(), clusterKey: p.cluster, kcp.RewrittenByAnnotation: kcp.RewrittenByPolicy}
		if report.Reason.Rewritten() {
			expected[createdBy] = report.CreatedBy
		}
		if p.requiredGroups != "" {
			expected[groupsKey] = p.requiredGroups
		}
		rewritten := object(expected).Object
		if !reflect.DeepEqual(rewritten, got.object) {
			tb.Errorf("policy and identity.Rewrite differ in cluster %q for %.3000q (-rewrite +policy):\n%s",
				p.cluster, p.owner, cmp.Diff(rewritten, got.object))
		}
	case got.by == byNone && want != p.owner:
		tb.Errorf("%s, and neither policy nor webhook handles it: %.3000q", report.Reason, p.owner)
	}
	return got.by
}

// plainOwner is the owner that kcp writes for a token of a service account, with further fields about the token.
func plainOwner(namespace, name, home string, more ...string) string {
	extra := map[string][]string{identity.ClusterNameKey: {home}, identity.ScopesKey: {"cluster:" + home}}
	for pair := range slices.Chunk(more, 2) {
		extra[pair[0]] = []string{pair[1]}
	}
	return identity.Owner{
		Username: "system:serviceaccount:" + namespace + ":" + name, UID: "1bf18950-d1ff-46b7-999a-b9c2b966e89b",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}, Extra: extra,
	}.String()
}

// lentOwner is the owner that kcp writes for a user whose request came through an APIExport's virtual workspace, with further extra fields.
func lentOwner(owner identity.Owner, more ...string) string {
	owner.Extra = map[string][]string{identity.WarrantKey: {identity.Warrant{
		User: "system:serviceaccount:default:rest", Groups: []string{"system:kcp:admin"},
		Extra: map[string][]string{identity.ClusterNameKey: {"consumer"}},
	}.String()}}
	for pair := range slices.Chunk(more, 2) {
		owner.Extra[pair[0]] = []string{pair[1]}
	}
	return owner.String()
}

// lentOfSize is such an owner of a user whose name is so long that the owner has size bytes.
func lentOfSize(size int) string {
	named := func(length int) string { return lentOwner(identity.Owner{Username: strings.Repeat("x", length)}) }
	return named(size - len(named(0)) - len(`"username":"",`))
}

// impersonatedOwner is the owner that kcp writes for a service account that somebody impersonates.
func impersonatedOwner(namespace, name string, scopes ...string) string {
	return identity.Owner{
		Username: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		Extra:    map[string][]string{identity.ScopesKey: scopes},
	}.String()
}

const credentialKey = "authentication.kubernetes.io/credential-id"

// maxPlainOwner is the size of the largest owner that the policy reads.
const maxPlainOwner = 4096

// ofSize is the owner of a service account whose token has an ID of so many characters that the owner has size bytes.
func ofSize(size int) string {
	id := func(length int) string {
		return plainOwner("default", "bot", "1dz6n4ubraua7pul", credentialKey, strings.Repeat("x", length))
	}
	return id(size - len(id(0)))
}

func TestWhichOwnersThePolicyHandles(t *testing.T) {
	m := newMutator(t)
	honest := plainOwner("default", "bot", "1dz6n4ubraua7pul", credentialKey, "JTI=cd4a8f65-5ba4-45c9-afa0-05ca133abe96")
	lent := lentOwner(identity.Owner{Username: "alice", UID: "a1", Groups: []string{"system:authenticated", "team-a"}})
	atHome := impersonatedOwner("default", "bot", "cluster:"+thisHome)
	label, long := strings.Repeat("x", 63), strings.TrimSuffix(strings.Repeat("x.", 127), ".")
	for name, tc := range map[string]struct {
		placement placement
		want      string
	}{
		"a service account":              {placement{owner: honest}, byPolicy},
		"one with the token of a Secret": {placement{owner: plainOwner("default", "bot", "1dz6n4ubraua7pul")}, byPolicy},
		"one with a token that is bound to a pod": {placement{owner: plainOwner("default", "bot", "1dz6n4ubraua7pul", credentialKey, "JTI=cd4a",
			"authentication.kubernetes.io/node-name", "node-1.example.com", "authentication.kubernetes.io/node-uid", "1b",
			"authentication.kubernetes.io/pod-name", "bot-0", "authentication.kubernetes.io/pod-uid", "2c")}, byPolicy},
		"one of the most bytes":                                          {placement{owner: ofSize(maxPlainOwner)}, byPolicy},
		"one of a byte more":                                             {placement{owner: ofSize(maxPlainOwner + 1)}, byWebhook},
		"one of the longest names":                                       {placement{owner: plainOwner(label, long, label)}, byPolicy},
		"a namespace that is too long":                                   {placement{owner: plainOwner(label+"x", "bot", "1dz6n4ubraua7pul")}, byWebhook},
		"a name that is too long":                                        {placement{owner: plainOwner("default", long+"x", "1dz6n4ubraua7pul")}, byWebhook},
		"a home that is too long":                                        {placement{owner: plainOwner("default", "bot", label+"x")}, byWebhook},
		"a home of one letter":                                           {placement{owner: plainOwner("default", "bot", "a")}, byWebhook},
		"its home is the new cluster":                                    {placement{owner: plainOwner("default", "bot", newCluster)}, byWebhook},
		"a new cluster with an invalid name":                             {placement{owner: honest, cluster: "a:b"}, byWebhook},
		"required groups":                                                {placement{owner: honest, requiredGroups: "team-a"}, byWebhook},
		"placed by another user":                                         {placement{owner: honest, by: alice}, byWebhook},
		"placed by a user without groups":                                {placement{owner: honest, by: noGroups}, byWebhook},
		"placed by one who claims to be kcp":                             {placement{owner: honest, by: claimed}, byWebhook},
		"placed by another who does":                                     {placement{owner: honest, by: inExport}, byWebhook},
		"a scope that excludes the home":                                 {placement{owner: strings.Replace(honest, "cluster:1dz6n4ubraua7pul", "cluster:attacker", 1)}, byWebhook},
		"the group of another namespace":                                 {placement{owner: strings.Replace(honest, "serviceaccounts:default", "serviceaccounts:other", 1)}, byWebhook},
		"a further group":                                                {placement{owner: strings.Replace(honest, `"system:authenticated"]`, `"system:authenticated","team-a"]`, 1)}, byWebhook},
		"a warrant":                                                      {placement{owner: strings.Replace(honest, `}}`, `,"authorization.kcp.io/warrant":["{}"]}}`, 1)}, byWebhook},
		"without a UID":                                                  {placement{owner: strings.Replace(honest, `"uid":"1bf18950-d1ff-46b7-999a-b9c2b966e89b",`, "", 1)}, byWebhook},
		"a blank at the end":                                             {placement{owner: honest + " "}, byWebhook},
		"a line at the end":                                              {placement{owner: honest + "\n"}, byWebhook},
		"64 KiB":                                                         {placement{owner: honest + strings.Repeat(" ", 64<<10)}, byWebhook},
		"a user":                                                         {placement{owner: rawUser}, byNone},
		"a scoped user":                                                  {placement{owner: rawScoped}, byWebhook},
		"a scoped user in another spelling":                              {placement{owner: strings.Replace(rawScoped, ":{", " : {", 1)}, byWebhook},
		"a scoped user with escapes":                                     {placement{owner: strings.Replace(rawScoped, "io/scopes", `io\/scopes`, 1)}, byWebhook},
		"an administrator":                                               {placement{owner: rawAdmin}, byNone},
		"none":                                                           {placement{}, byNone},
		"a user with the warrant of an APIExport":                        {placement{owner: lent}, byPolicy},
		"one with it below a parent that requires groups":                {placement{owner: lent, requiredGroups: "team-a"}, byPolicy},
		"one with it and a client certificate":                           {placement{owner: lentOwner(identity.Owner{Username: "alice"}, credentialKey, "X509SHA256=1f")}, byPolicy},
		"one with it and no groups":                                      {placement{owner: lentOwner(identity.Owner{Username: "https://issuer/#a'lice"})}, byPolicy},
		"one with it and a new cluster with an invalid name":             {placement{owner: lent, cluster: "a:b"}, byPolicy},
		"one with it, in a workspace of root":                            {placement{owner: strings.Replace(lent, "consumer", "root", 1)}, byPolicy},
		"one with it of the most bytes":                                  {placement{owner: lentOfSize(maxPlainOwner)}, byPolicy},
		"one with it of a byte more":                                     {placement{owner: lentOfSize(maxPlainOwner + 1)}, byWebhook},
		"one with it, placed by another user":                            {placement{owner: lent, by: alice}, byWebhook},
		"one with it twice":                                              {placement{owner: strings.Replace(lent, `["{`, `["{}","{`, 1)}, byWebhook},
		"one with it and a further field":                                {placement{owner: lentOwner(identity.Owner{Username: "alice"}, "example.com/x", "y")}, byWebhook},
		"one with it whose name needs an escape":                         {placement{owner: lentOwner(identity.Owner{Username: "a<b"})}, byWebhook},
		"one with it whose group has a blank":                            {placement{owner: lentOwner(identity.Owner{Username: "alice", Groups: []string{"team: a"}})}, byWebhook},
		"one with it whose name is not ASCII":                            {placement{owner: lentOwner(identity.Owner{Username: "älice"})}, byWebhook},
		"one with it whose group has a quote":                            {placement{owner: lentOwner(identity.Owner{Username: "alice", Groups: []string{`","system:masters`}})}, byWebhook},
		"an administrator with it":                                       {placement{owner: lentOwner(identity.Owner{Username: "kcp-admin", Groups: []string{"system:kcp:admin"}})}, byWebhook},
		"a scoped user with it":                                          {placement{owner: lentOwner(identity.Owner{Username: "alice"}, identity.ScopesKey, "cluster:parent")}, byWebhook},
		"a service account with it":                                      {placement{owner: lentOwner(identity.Owner{Username: "system:serviceaccount:default:bot"})}, byWebhook},
		"a user with the warrant of another administrator":               {placement{owner: strings.Replace(lent, "default:rest", "default:boss", 1)}, byWebhook},
		"a user with the warrant of another group":                       {placement{owner: strings.Replace(lent, "system:kcp:admin", "system:masters", 1)}, byWebhook},
		"a user with the warrant of no administrator":                    {placement{owner: strings.Replace(lent, "system:kcp:admin", "team-b", 1)}, byWebhook},
		"a user with a warrant inside the warrant":                       {placement{owner: strings.Replace(lent, `}}"]`, `,\"authorization.kcp.io/warrant\":[\"{}\"]}}"]`, 1)}, byWebhook},
		"a user with the warrant of an APIExport in another spelling":    {placement{owner: strings.Replace(lent, `"extra":`, `"extra": `, 1)}, byWebhook},
		"a user with the warrant of an APIExport with escapes":           {placement{owner: strings.Replace(lent, `default:rest`, `default\u003arest`, 1)}, byWebhook},
		"a user with the warrant of an APIExport with escaped escapes":   {placement{owner: strings.Replace(lent, `default:rest`, `default\\u003arest`, 1)}, byWebhook},
		"a user with the warrant of an APIExport and a blank at the end": {placement{owner: lent + " "}, byWebhook},
		"impersonated in the parent":                                     {placement{owner: atHome}, byPolicy},
		"impersonated, of the longest names":                             {placement{owner: impersonatedOwner(label, long, "cluster:"+label), parent: label}, byPolicy},
		"impersonated, with a namespace that is too long":                {placement{owner: impersonatedOwner(label+"x", "bot", "cluster:"+thisHome)}, byWebhook},
		"impersonated, with a name that is too long":                     {placement{owner: impersonatedOwner("default", long+"x", "cluster:"+thisHome)}, byWebhook},
		"impersonated, with a scope that is too long":                    {placement{owner: impersonatedOwner("default", "bot", "cluster:"+label+"x"), parent: label + "x"}, byWebhook},
		"impersonated in another logical cluster":                        {placement{owner: impersonatedOwner("default", "bot", "cluster:attacker")}, byWebhook},
		"impersonated, with the parent unknown":                          {placement{owner: atHome, parent: "attacker"}, byWebhook},
		"impersonated, with a forged scope":                              {placement{owner: impersonatedOwner("default", "bot", "cluster:"+thisHome, "cluster:attacker"), parent: "attacker"}, byWebhook},
		"impersonated, with a forged alternative":                        {placement{owner: impersonatedOwner("default", "bot", "cluster:attacker,cluster:"+thisHome)}, byWebhook},
		"impersonated in the new cluster":                                {placement{owner: impersonatedOwner("default", "bot", "cluster:"+newCluster), parent: newCluster}, byWebhook},
		"impersonated, and required groups":                              {placement{owner: atHome, requiredGroups: "team-a"}, byWebhook},
		"impersonated, with a UID":                                       {placement{owner: strings.Replace(atHome, `,"groups"`, `,"uid":"6a1b","groups"`, 1)}, byWebhook},
		"impersonated, with a further group":                             {placement{owner: strings.Replace(atHome, `"system:authenticated"]`, `"system:authenticated","team-a"]`, 1)}, byWebhook},
		"impersonated, with the group of another namespace":              {placement{owner: strings.Replace(atHome, "serviceaccounts:default", "serviceaccounts:other", 1)}, byWebhook},
		"impersonated, with a warrant":                                   {placement{owner: strings.Replace(atHome, `}}`, `,"authorization.kcp.io/warrant":["{}"]}}`, 1)}, byWebhook},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.placement.cluster == "" {
				tc.placement.cluster = newCluster
			}
			if got := m.check(t, tc.placement); got != tc.want {
				t.Errorf("handled by %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPolicyAnswersCanaries: only a dry run of a CREATE is a canary, so that no stored object is changed.
func TestPolicyAnswersCanaries(t *testing.T) {
	m := newMutator(t)
	placed := map[string]any{ownerKey: plainOwner("default", "bot", "1dz6n4ubraua7pul"), clusterKey: newCluster}
	with := func(key, value string) map[string]any {
		annotations := maps.Clone(placed)
		annotations[key] = value
		return annotations
	}
	for name, tc := range map[string]struct {
		operation   admission.Operation
		stored      bool
		by          user.Info
		annotations map[string]any
		want        map[string]any
	}{
		"a canary":                       {admission.Create, false, alice, with(kcp.CanaryAnnotation, kcp.PolicyCanary), placed},
		"by a user without groups":       {admission.Create, false, noGroups, with(kcp.CanaryAnnotation, kcp.PolicyCanary), placed},
		"one that would be stored":       {admission.Create, true, alice, with(kcp.CanaryAnnotation, kcp.PolicyCanary), with(kcp.CanaryAnnotation, kcp.PolicyCanary)},
		"that of the webhook":            {admission.Create, false, alice, with(kcp.CanaryAnnotation, "true"), with(kcp.CanaryAnnotation, "true")},
		"an update":                      {admission.Update, false, alice, with(kcp.CanaryAnnotation, kcp.PolicyCanary), with(kcp.CanaryAnnotation, kcp.PolicyCanary)},
		"no annotations":                 {admission.Create, false, alice, nil, nil},
		"created as placed by kcp":       {admission.Create, true, apiServer, placed, placed},
		"created as placed in a dry run": {admission.Create, false, apiServer, placed, placed},
	} {
		t.Run(name, func(t *testing.T) {
			var old apiruntime.Object
			if tc.operation == admission.Update {
				old = object(placed)
			}
			after := object(maps.Clone(tc.annotations))
			attributes := admission.NewAttributesRecord(after, old, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "", "child",
				tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"), "", tc.operation, nil, !tc.stored, tc.by)
			if err := m.plugin.Admit(t.Context(), attributes, m.interfaces); err != nil {
				t.Fatal(err)
			}
			want := object(maps.Clone(tc.want))
			if tc.operation == admission.Create && tc.by != apiServer { // as in a backup
				unstructured.RemoveNestedField(want.Object, "metadata", "annotations", clusterKey)
			}
			if diff := cmp.Diff(want.Object, after.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPolicyAgreesWithRewrite: for every owner, the policy has the result of identity.Rewrite, or leaves the owner to the webhook, or the
// owner needs no rewrite. No expression fails to evaluate.
func TestPolicyAgreesWithRewrite(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 1_000
	}
	m := newMutator(t)
	counts := webhookstest.Tally(t, count, func(seed uint64, count int) iter.Seq[string] {
		return func(yield func(string) bool) {
			for p := range hostile(seed, count) {
				if !yield(m.check(t, p)) {
					return
				}
			}
		}
	})
	t.Logf("owners by the policy or webhook that handled them: %v", counts)
	for by, least := range map[string]int{byPolicy: count / 20, byWebhook: count / 4, byNone: count / 100} {
		if counts[by] < least {
			t.Errorf("%d owners were handled by %s, want at least %d: the generator has to be corrected", counts[by], by, least)
		}
	}
}

func FuzzPolicyAgreesWithRewrite(f *testing.F) {
	for p := range hostile(99, 200) {
		if len(p.owner) < 8<<10 {
			f.Add(p.owner, p.parent, p.cluster, p.requiredGroups)
		}
	}
	m := newMutator(f)
	f.Fuzz(func(t *testing.T, owner, parent, cluster, requiredGroups string) {
		if !json.Valid([]byte(fmt.Sprintf("[%q,%q]", parent, cluster))) || cluster == "" {
			return
		}
		m.check(t, placement{owner: owner, parent: parent, cluster: cluster, requiredGroups: requiredGroups})
	})
}

// hostile generates placements with honest owners, and with owners that differ in a few changes that a forger might try.
func hostile(seed uint64, count int) iter.Seq[placement] {
	return func(yield func(placement) bool) {
		r := rand.New(rand.NewPCG(15, seed))
		for range count {
			p := placement{owner: someOwner(r), cluster: newCluster}
			for range max(0, r.IntN(6)-2) {
				p.owner = changes[r.IntN(len(changes))](r, p.owner)
			}
			switch r.IntN(20) {
			case 3:
				p.by = []user.Info{claimed, inExport}[r.IntN(2)]
			case 0:
				p.requiredGroups = pick(r, "team-a", "a,b;c", ";", " ")
			case 2:
				p.parent = pick(r, "root", "zz", newCluster, "attacker", "a", "'", `"`)
			case 1:
				p.cluster = pick(r, "1dz6n4ubraua7pul", "a", "root:orgs", strings.Repeat("n", 64), "N", "system:admin", "n\n", "-n", "a'b", `a"b`)
			}
			if !yield(p) {
				return
			}
		}
	}
}

func pick(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

var (
	label63 = strings.Repeat("l", 63)
	labels  = []string{"default", "bot", "a", "a-b", "0", label63, label63 + "l", "-a", "a-", "A", "a_b", "ä", "a.b", "", "a:b", `a"b`, `a\b`, "a<b", "a b", "system"}
)

func name(r *rand.Rand) string {
	if r.IntN(8) > 0 {
		return pick(r, labels[:6]...)
	}
	return pick(r, append([]string{"a.b-c.d", strings.Repeat("n", 253), strings.Repeat("n", 254), "a..b", ".a"}, labels...)...)
}

func someOwner(r *rand.Rand) string {
	home := "1dz6n4ubraua7pul"
	if r.IntN(6) == 0 {
		home = pick(r, append([]string{"root", "zz", newCluster, "cluster", "system:admin"}, labels...)...)
	}
	namespace := name(r)
	owner := identity.Owner{
		Username: "system:serviceaccount:" + namespace + ":" + name(r), UID: pick(r, "6a1b", "6a1b", "6a1b", "6a1b", "6a1b", "6a1b", "1bf18950-d1ff-46b7-999a-b9c2b966e89b", "", `"`, "a b"),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		Extra:  map[string][]string{identity.ClusterNameKey: {home}, identity.ScopesKey: {"cluster:" + home}},
	}
	for _, key := range []string{credentialKey, "authentication.kubernetes.io/node-name", "authentication.kubernetes.io/node-uid",
		"authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"} {
		if r.IntN(3) == 0 {
			owner.Extra[key] = []string{pick(r, "JTI=cd4a8f65", "node-1.example.com", "bot-0")}
		} else if r.IntN(20) == 0 {
			owner.Extra[key] = []string{pick(r, "", `"],"x":["`, "ä", "a/b")}
		}
	}
	switch r.IntN(30) {
	case 26, 27, 28, 29: // a user whose request came through an APIExport's virtual workspace
		user := identity.Owner{Username: pick(r, "alice", "https://issuer/#bob", "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot", "system:serviceaccount:default:bot", "a<b", `a"b`, "ä")}
		if r.IntN(2) == 0 {
			user.UID = pick(r, "a1", "a b", `"`)
		}
		for range r.IntN(3) {
			user.Groups = append(user.Groups, pick(r, "system:authenticated", "team-a", "team b", "system:kcp:admin", "system:mastersx", `","x`))
		}
		var more []string
		if r.IntN(2) == 0 {
			more = []string{pick(r, credentialKey, credentialKey, "a", "z", identity.ScopesKey), pick(r, "X509SHA256=1f", "cluster:parent", "")}
		}
		return lentOwner(user, more...)
	case 0:
		owner.Username = pick(r, "alice", "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot", "system:serviceaccount:", "system:serviceaccount:a",
			"system:serviceaccount:a:b:c", `alice","groups":["system:masters`, "system:apiserver")
	case 1:
		owner.Extra[identity.ScopesKey] = append(owner.Extra[identity.ScopesKey], pick(r, "cluster:attacker", "cluster:"+home, "", "cluster:attacker,cluster:"+home))
	case 2:
		owner.Extra[identity.ScopesKey] = []string{pick(r, "cluster:attacker", "cluster:attacker,cluster:"+home, "cluster:"+home+",cluster:attacker", home, "", "cluster:"+home+"x")}
	case 3:
		owner.Extra[identity.ClusterNameKey] = append(owner.Extra[identity.ClusterNameKey], pick(r, home, "other"))
	case 4:
		owner.Groups = append(owner.Groups, pick(r, "system:masters", "team-a", "system:authenticated", `","system:masters`))
	case 5:
		owner.Groups = [][]string{nil, {"system:authenticated"}, {"system:serviceaccounts", "system:serviceaccounts:other", "system:authenticated"}}[r.IntN(3)]
	case 6:
		delete(owner.Extra, pick(r, identity.ClusterNameKey, identity.ScopesKey))
	case 7:
		inner := identity.Warrant{User: "bob", Groups: []string{pick(r, "team-a", "system:masters")}}
		for range r.IntN(10) {
			inner = identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {inner.String()}}}
		}
		owner.Extra[identity.WarrantKey] = []string{pick(r, inner.String(), "{", "", `{"user":"bob","note":1}`)}
	case 8:
		owner.Extra[pick(r, "example.com/x", "authentication.kcp.io/", "a", "authentication.kubernetes.io/cluster-name")] = []string{pick(r, "x", "", home)}
	case 9: // a user
		return identity.Owner{Username: "alice", Groups: []string{"system:authenticated", pick(r, "team-a", "system:kcp:admin")}}.String()
	case 10: // a scoped user
		return identity.Owner{Username: "alice", Extra: map[string][]string{identity.ScopesKey: {"cluster:parent"}}}.String()
	case 11: // as large as an owner may be, and larger
		owner.Extra["example.com/x"] = []string{strings.Repeat(pick(r, "x", `"`), pickInt(r, 3000, 4096, 8192, 32<<10, 64<<10))}
	case 12:
		raw, _ := identitytest.Rewrite(owner.String(), thisHome, newCluster, "", identity.Policy{})
		return raw
	case 13, 14, 15, 16: // impersonated by its name alone, mostly in the parent
		owner.UID = ""
		owner.Extra = map[string][]string{identity.ScopesKey: owner.Extra[identity.ScopesKey]}
	case 17: // impersonated, with what the impersonator adds
		delete(owner.Extra, identity.ClusterNameKey)
		if r.IntN(2) == 0 {
			owner.Extra[identity.ScopesKey] = append([]string{pick(r, "cluster:attacker", "cluster:"+home, "")}, owner.Extra[identity.ScopesKey]...)
		}
	}
	return owner.String()
}

func pickInt(r *rand.Rand, values ...int) int { return values[r.IntN(len(values))] }

// changes are changes of a forger to the text of an owner.
var changes = []func(r *rand.Rand, owner string) string{
	func(_ *rand.Rand, owner string) string { return owner },
	func(_ *rand.Rand, owner string) string { return owner },
	func(r *rand.Rand, owner string) string { // insert something
		at := r.IntN(len(owner) + 1)
		return owner[:at] + pick(r, " ", "\n", "\t", "\r", "\\", `"`, `\"`, `\u0022`, `\/`, ",", ":", "{", "}", "[", "]", "ä", "\u2028", "'", "\x00", "a", "-",
			`,"username":"alice"`, `"uid":"x",`, `,"x":["y"]`) + owner[at:]
	},
	func(r *rand.Rand, owner string) string { // leave something out
		if owner == "" {
			return owner
		}
		from := r.IntN(len(owner))
		return owner[:from] + owner[min(len(owner), from+1+r.IntN(4)):]
	},
	func(r *rand.Rand, owner string) string { return owner[:r.IntN(len(owner)+1)] }, // truncate
	func(r *rand.Rand, owner string) string { // another letter
		if owner == "" {
			return owner
		}
		at := r.IntN(len(owner))
		return owner[:at] + string(rune(32+r.IntN(96))) + owner[at+1:]
	},
	func(r *rand.Rand, owner string) string { // an escape that means the same
		at := r.IntN(len(owner) + 1)
		if at == len(owner) || owner[at] >= 0x80 {
			return owner
		}
		return owner[:at] + fmt.Sprintf(pick(r, `\u%04x`, `\u%04X`), owner[at]) + owner[at+1:]
	},
	func(r *rand.Rand, owner string) string { // another order of fields, or one that is repeated
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(owner), &fields) != nil {
			return owner
		}
		text := "{"
		for key, value := range fields {
			for range 1 + r.IntN(6)/5 {
				text += fmt.Sprintf("%q:%s,", key, value)
			}
		}
		return strings.TrimSuffix(text, ",") + "}"
	},
	func(_ *rand.Rand, owner string) string { // spread over lines
		var value any
		if json.Unmarshal([]byte(owner), &value) != nil {
			return owner
		}
		raw, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			return owner
		}
		return string(raw)
	},
	func(r *rand.Rand, owner string) string { // names in other case
		return strings.Replace(owner, pick(r, `"username"`, `"groups"`, `"extra"`, "system:"), pick(r, `"Username"`, `"GROUPS"`, "System:"), 1)
	},
	func(r *rand.Rand, owner string) string { return owner + pick(r, " ", "\n", "{}", "\x00", "}", "x") },
	func(r *rand.Rand, owner string) string { return pick(r, " ", "\n", "\ufeff", "[", "x") + owner },
	func(r *rand.Rand, owner string) string {
		return strings.Replace(owner, pick(r, "system:authenticated", "default", "1dz6n4ubraua7pul"), pick(r, "system:masters", "other", "1dz6n4ubraua7pul"), 1+r.IntN(2))
	},
	func(r *rand.Rand, owner string) string { // another warrant, or one more
		return strings.Replace(owner, pick(r, `["{`, `}"]`, `\"groups\"`, "system:kcp:admin", "consumer", `}}"]`), pick(r, `["{\"user\":\"bob\"}","{`, `}","{}"]`, `\"Groups\"`,
			"system:kcp:admins", "root", "a:b", `,\"authorization.kcp.io/warrant\":[\"{}\"]}}"]`), 1)
	},
}
