package v1beta1

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/internal/ownership"
)

// regionMark is the placeholder of the region in the URLs of a cloud.
const regionMark = "{region}"

// Texts of errors of several fields.
const (
	notAFieldPath = "must be a path of fields, such as "
	needsAuthURLs = "needs openStack.authURLs, the Keystones that may be called"
)

var (
	// workspacePattern matches paths of workspaces on kcp. A path becomes part of a URL.
	workspacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	// fieldPathPattern matches paths of plain field names. A path becomes part of an expression that the API server evaluates.
	fieldPathPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*){1,7}$`)
	// externalPattern matches external providers.
	externalPattern = regexp.MustCompile(`^external(-[a-z0-9]+)*$`)
)

// builtInUserKinds and builtInCredentialKinds are the resources that a file cannot configure, in any group if they have none here.
var (
	builtInUserKinds       = []string{"cloudsigmaclusters", "kdcclusters", "secrets"}
	builtInCredentialKinds = []string{"openstackclusters", "openstackmachines", "secrets", "clusters.cluster.x-k8s.io"}
)

// mistakes collects every mistake in a configuration.
type mistakes struct{ field.ErrorList }

// Validate returns every mistake in config, each with the path of its field. SetDefaults has to be called before.
func Validate(config GateConfiguration) field.ErrorList {
	m := &mistakes{}
	m.mode(config.Workspace.OwnerRewrite.Mode, field.NewPath("workspace", "ownerRewrite"))
	m.mode(config.Workspace.OwnerIntegrity.Mode, field.NewPath("workspace", "ownerIntegrity"))
	m.mode(config.Repair.Mode, field.NewPath("repair"))
	m.machine(config.Machine, config.OpenStack, config.Audit.Mode, field.NewPath("machine"))
	m.impersonation(config.Cluster.Impersonation, field.NewPath("cluster", "impersonation"))
	m.controllerManager(config.ControllerManager, field.NewPath("controllerManager"))
	m.audit(config.Audit, field.NewPath("audit"))
	m.cloudSigma(config.CloudSigma, field.NewPath("cloudSigma"))
	m.delegation(config.Cluster.Delegation, config.OpenStack, field.NewPath("cluster", "delegation"))
	for i, namespace := range config.Cluster.ExemptNamespaces {
		m.invalid(field.NewPath("cluster", "exemptNamespaces").Index(i), namespace, validation.IsDNS1123Label(namespace)...)
	}
	m.openStack(config.OpenStack, field.NewPath("openStack"))
	m.keystonePolicy(config.KeystonePolicy, field.NewPath("keystonePolicy"))
	m.add(config.RolePolicy().Validate(field.NewPath("delegation", "openStackRoles"))...)
	m.add(config.Policy().Validate(field.NewPath("delegation", "keepWarrants"))...)
	return m.ErrorList
}

func (m *mistakes) add(errs ...*field.Error) { m.ErrorList = append(m.ErrorList, errs...) }

// invalid adds an error for each problem of a value. An empty text, as that of a field which the file does not have, is only missing.
func (m *mistakes) invalid(at *field.Path, value any, problems ...string) {
	if value == "" && len(problems) > 0 {
		m.add(field.Required(at, ""))
		return
	}
	for _, problem := range problems {
		m.add(field.Invalid(at, value, problem))
	}
}

// match adds an error unless a pattern matches the value.
func (m *mistakes) match(pattern *regexp.Regexp, at *field.Path, value, problem string) {
	if !pattern.MatchString(value) {
		m.invalid(at, value, problem)
	}
}

// oneOf adds an error unless the value is a supported one.
func oneOf[T ~string](m *mistakes, at *field.Path, value T, supported ...T) {
	if !slices.Contains(supported, value) {
		m.add(field.NotSupported(at, value, supported))
	}
}

// mode validates the mode of a gate.
func (m *mistakes) mode(mode Mode, gate *field.Path) {
	oneOf(m, gate.Child("mode"), mode, Enforce, Warn, Off)
}

// kind validates the names of a kind of objects, and adds its resource to seen. A webhook has the name of its resource without the group.
func (m *mistakes) kind(group, version, kind, resource string, seen sets.Set[string], at *field.Path) {
	if seen.HasAny(resource, resource+"."+group) {
		m.invalid(at.Child("resource"), resource, "is the resource of another kind, also in another group: a webhook has its name")
	}
	seen.Insert(resource)
	m.invalid(at.Child("group"), group, validation.IsDNS1123Subdomain(group)...)
	m.invalid(at.Child("version"), version, validation.IsDNS1035Label(version)...)
	m.invalid(at.Child("resource"), resource, validation.IsDNS1035Label(resource)...)
	m.invalid(at.Child("kind"), kind, validation.IsDNS1035Label(strings.ToLower(kind))...)
}

// object validates a reference to an object. duplicate is true if an earlier entry is equal.
func (m *mistakes) object(namespace, name string, duplicate bool, at *field.Path) {
	if duplicate {
		m.add(field.Duplicate(at, namespace+"/"+name))
	}
	m.invalid(at.Child("namespace"), namespace, validation.IsDNS1123Label(namespace)...)
	m.invalid(at.Child("name"), name, validation.IsDNS1123Subdomain(name)...)
}

// selector validates a selector, which must have at least one requirement: an empty one selects all objects.
func (m *mistakes) selector(selector *metav1.LabelSelector, at *field.Path, why string) {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		m.add(field.Required(at, why))
		return
	}
	m.add(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)...)
}

func (m *mistakes) keys(keys []string, at *field.Path) {
	for i, key := range keys {
		m.invalid(at.Index(i), key, validation.IsConfigMapKey(key)...)
	}
}

// url validates a URL with one of the schemes.
func (m *mistakes) url(raw string, at *field.Path, problem string, schemes ...string) {
	parsed, err := url.Parse(strings.ReplaceAll(raw, regionMark, "region"))
	if err == nil && slices.Contains(schemes, parsed.Scheme) && parsed.Host != "" && parsed.User == nil && parsed.RawQuery == "" && parsed.Fragment == "" {
		return
	}
	if err == nil {
		raw = strings.ReplaceAll(parsed.Redacted(), "region", regionMark)
	}
	m.invalid(at, raw, problem)
}

func (m *mistakes) machine(machine Machine, openStack OpenStack, audit Mode, at *field.Path) {
	m.mode(machine.Mode, at)
	if unknown := machine.Unknown; unknown == AdmitFirstClaims && audit == Off {
		m.invalid(at.Child("unknown"), unknown, "needs audit.mode, because nothing else checks the admitted claims later")
	} else if unknown != "" {
		oneOf(m, at.Child("unknown"), unknown, AdmitFirstClaims, Deny, Admit)
	}
	seen := sets.New(cloudSigmaMachine.Resource, openStackMachine.Resource)
	for i, kind := range machine.Kinds {
		at := at.Child("kinds").Index(i)
		m.machineKind(kind, seen, at)
		if kind.Provider == ProviderOpenStack && !openStack.Enabled() {
			m.invalid(at.Child("provider"), kind.Provider, needsAuthURLs)
		}
	}
}

func (m *mistakes) machineKind(kind MachineKind, seen sets.Set[string], at *field.Path) {
	m.kind(kind.Group, kind.Version, kind.Kind, kind.Resource, seen, at)
	external := kind.Provider.IsExternal()
	if external {
		m.external(kind, at)
	} else {
		m.match(fieldPathPattern, at.Child("instanceIDPath"), kind.InstanceIDPath, notAFieldPath+"status.instanceID")
	}
	if !external && kind.IDPattern != "" {
		m.invalid(at.Child("idPattern"), kind.IDPattern, "needs an external provider, because the IDs of others are UUIDs")
	}
	m.match(fieldPathPattern, at.Child("providerIDPath"), kind.ProviderIDPath, notAFieldPath+"status.instanceID")
	if kind.IdentityRefPath != "" && !external {
		m.match(fieldPathPattern, at.Child("identityRefPath"), kind.IdentityRefPath, notAFieldPath+"spec.identityRef")
	}
	if !external || !externalPattern.MatchString(string(kind.Provider)) {
		oneOf(m, at.Child("provider"), kind.Provider, ProviderCloudSigma, ProviderOpenStack, ProviderExternal)
	}
}

// external validates the fields of a kind of an external provider.
func (m *mistakes) external(kind MachineKind, at *field.Path) {
	const only = "cannot be set with an external provider: providerIDPath is the field with the ID"
	if kind.InstanceIDPath != "" {
		m.invalid(at.Child("instanceIDPath"), kind.InstanceIDPath, only)
	}
	if kind.IdentityRefPath != "" {
		m.invalid(at.Child("identityRefPath"), kind.IdentityRefPath, only)
	}
	if _, err := ownership.ExternalIDs(kind.IDPattern); err != nil {
		m.invalid(at.Child("idPattern"), kind.IDPattern, err.Error())
	}
}

func (m *mistakes) impersonation(impersonation ClusterImpersonation, at *field.Path) {
	m.mode(impersonation.Mode, at)
	seen := sets.New(builtInUserKinds...)
	for i, kind := range impersonation.Kinds {
		at := at.Child("kinds").Index(i)
		m.kind(kind.Group, kind.Version, kind.Kind, kind.Resource, seen, at)
		if kind.EmailPath != "" {
			m.match(fieldPathPattern, at.Child("emailPath"), kind.EmailPath, notAFieldPath+"spec.userEmail")
		} else if len(kind.Annotations) == 0 {
			m.add(field.Required(at.Child("emailPath"), "at least one of emailPath and annotations must be set"))
		}
		for j, key := range kind.Annotations {
			m.invalid(at.Child("annotations").Index(j), key, validation.IsQualifiedName(strings.ToLower(key))...)
		}
	}
}

func (m *mistakes) controllerManager(manager ControllerManager, at *field.Path) {
	m.mode(manager.Mode, at)
	if manager.Mode == Off {
		return
	}
	if manager.Selector != nil || len(manager.Objects) == 0 {
		m.selector(manager.Selector, at.Child("selector"), "without labels, every Deployment would be treated as a cloud controller manager")
	}
	for i, object := range manager.Objects {
		m.object(object.Namespace, object.Name, slices.Contains(manager.Objects[:i], object), at.Child("objects").Index(i))
	}
	for i, command := range manager.Commands {
		if command == "" || strings.Contains(command, "$") {
			m.invalid(at.Child("commands").Index(i), command, "must be a program, without variables")
		}
	}
	for i, flag := range manager.Flags {
		if flag == "" || strings.HasPrefix(flag, "-") || strings.ContainsAny(flag, "=$") {
			m.invalid(at.Child("flags").Index(i), flag, "must be the name of a flag, without dashes and value")
		}
	}
	m.add(metav1validation.ValidateLabelName(manager.ClusterNameLabel, at.Child("clusterNameLabel"))...)
	m.invalid(at.Child("secretName"), manager.SecretName, validation.IsDNS1123Subdomain(manager.SecretName)...)
}

func (m *mistakes) audit(audit Audit, at *field.Path) {
	m.mode(audit.Mode, at)
	if audit.Reports && audit.Mode == Off {
		m.invalid(at.Child("reports"), audit.Reports, "needs audit.mode, because the audit writes the reports")
	}
	for i, provider := range audit.Providers {
		at := at.Child("providers").Index(i)
		m.match(workspacePattern, at.Child("workspace"), provider.Workspace, "must be the path of a workspace, such as root:provider, or its logical cluster")
		m.invalid(at.Child("apiExport"), provider.APIExport, validation.IsDNS1123Subdomain(provider.APIExport)...)
		if slices.Contains(audit.Providers[:i], provider) {
			m.add(field.Duplicate(at, provider))
		}
	}
}

func (m *mistakes) cloudSigma(cloud CloudSigma, at *field.Path) {
	// Tokens are sent to these URLs.
	const notATemplate = "must be an https URL without user, query and fragment; {region} stands for the region"
	notARegion := "must match " + ownership.RegionPattern.String()
	for i, region := range cloud.Regions {
		m.match(ownership.RegionPattern, at.Child("regions").Index(i), region, notARegion)
	}
	if region := cloud.DefaultRegion; !ownership.RegionPattern.MatchString(region) {
		m.invalid(at.Child("defaultRegion"), region, notARegion)
	} else if region != defaultRegion && len(cloud.Regions) > 0 && !slices.Contains(cloud.Regions, region) { // the default may be that of SetDefaults
		m.invalid(at.Child("defaultRegion"), region, "must be one of cloudSigma.regions, because machines of clusters without spec.region are denied otherwise")
	}
	m.url(cloud.API, at.Child("api"), notATemplate, "https")
	if cloud.LegacyAPI != cloud.API { // the default is api
		m.url(cloud.LegacyAPI, at.Child("legacyAPI"), notATemplate, "https")
	}
	m.url(cloud.ServiceProviderAPI, at.Child("serviceProviderAPI"), notATemplate, "https")
	if !strings.HasPrefix(cloud.TokenPath, "/") || path.Clean(cloud.TokenPath) != cloud.TokenPath || strings.ContainsAny(cloud.TokenPath, "?#%") {
		m.invalid(at.Child("tokenPath"), cloud.TokenPath, "must be a plain path that begins with /")
	}
	oneOf(m, at.Child("flow"), cloud.Flow, ServiceProvider, TokenExchange)
}

func (m *mistakes) delegation(delegation ClusterDelegation, openStack OpenStack, at *field.Path) {
	m.mode(delegation.Mode, at)
	seen := sets.New(builtInCredentialKinds...)
	for i, kind := range delegation.Kinds {
		at := at.Child("kinds").Index(i)
		m.kind(kind.Group, kind.Version, kind.Kind, kind.Resource, seen, at)
		m.match(fieldPathPattern, at.Child("identityRefPath"), kind.IdentityRefPath, notAFieldPath+"spec.identityRef")
		if !openStack.Enabled() {
			m.invalid(at, kind.Resource+"."+kind.Group, needsAuthURLs)
		}
	}
	oneOf(m, at.Child("through"), delegation.Through, ApplicationCredential, Trust)
	oneOf(m, at.Child("unrestrictedApplicationCredentials"), delegation.UnrestrictedApplicationCredentials, WarnOfUnrestricted, DenyUnrestricted)
	m.add(delegation.Operators.policy().Validate(at.Child("operators"))...)
}

func (m *mistakes) openStack(openStack OpenStack, at *field.Path) {
	for i, authURL := range openStack.AuthURLs {
		m.url(authURL, at.Child("authURLs").Index(i), "must be a URL without user, query and fragment, such as https://keystone.example.com:5000/v3", "https", "http")
	}
}

func (m *mistakes) keystonePolicy(policy KeystonePolicy, at *field.Path) {
	m.mode(policy.Mode, at)
	if policy.Mode == Off {
		return
	}
	if policy.Selector != nil || len(policy.Objects) == 0 {
		m.selector(policy.Selector, at.Child("selector"), "without labels, every ConfigMap and Secret would be treated as a policy")
	}
	for i, object := range policy.Objects {
		m.object(object.Namespace, object.Name, slices.Contains(policy.Objects[:i], object), at.Child("objects").Index(i))
	}
	if _, err := oslopolicy.ParseRelease(policy.KeystoneRelease); err != nil {
		m.add(field.NotSupported(at.Child("keystoneRelease"), oslopolicy.Release(policy.KeystoneRelease), oslopolicy.Releases()))
	}
	for i, pattern := range policy.KnownRules {
		if _, err := path.Match(pattern, ""); err != nil {
			m.invalid(at.Child("knownRules").Index(i), pattern, "must be a pattern of path.Match, such as \"identity:scim_*\"")
		}
	}
	m.keys(policy.Keys, at.Child("keys"))
	for i, base := range policy.Base {
		isSame := func(other KeystonePolicyBase) bool {
			return other.Namespace == base.Namespace && other.Name == base.Name
		}
		at := at.Child("base").Index(i)
		m.object(base.Namespace, base.Name, slices.ContainsFunc(policy.Base[:i], isSame), at)
		m.keys(base.Keys, at.Child("keys"))
	}
}
