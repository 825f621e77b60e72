package v1beta1

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/internal/ownership"
)

// regionMark is the placeholder of the region in the URLs of a cloud.
const regionMark = "{region}"

var (
	// workspacePattern matches paths of workspaces on kcp. A path becomes part of a URL.
	workspacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	// fieldPathPattern matches paths of plain field names. A path becomes part of an expression that the API server evaluates.
	fieldPathPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*){1,7}$`)
)

// Validate returns every mistake in config, each with the path of its field. SetDefaults has to be called before.
func Validate(config GateConfiguration) field.ErrorList {
	var errs field.ErrorList
	workspace := field.NewPath("workspace")
	errs = append(errs, validateMode(config.Workspace.OwnerRewrite.Mode, workspace.Child("ownerRewrite"))...)
	errs = append(errs, validateMode(config.Workspace.OwnerIntegrity.Mode, workspace.Child("ownerIntegrity"))...)
	errs = append(errs, validateRepair(config.Repair, field.NewPath("repair"))...)
	errs = append(errs, validateMachine(config.Machine, config.OpenStack, config.Audit.Mode, field.NewPath("machine"))...)
	errs = append(errs, validateImpersonation(config.Cluster.Impersonation, field.NewPath("cluster", "impersonation"))...)
	errs = append(errs, validateControllerManager(config.ControllerManager, field.NewPath("controllerManager"))...)
	errs = append(errs, validateAudit(config.Audit, field.NewPath("audit"))...)
	errs = append(errs, validateCloudSigma(config.CloudSigma, field.NewPath("cloudSigma"))...)
	errs = append(errs, validateDelegation(config.Cluster.Delegation, config.OpenStack, field.NewPath("cluster", "delegation"))...)
	for i, namespace := range config.Cluster.ExemptNamespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(field.NewPath("cluster", "exemptNamespaces").Index(i), namespace, problem))
		}
	}
	errs = append(errs, validateOpenStack(config.OpenStack, field.NewPath("openStack"))...)
	errs = append(errs, validateKeystonePolicy(config.KeystonePolicy, field.NewPath("keystonePolicy"))...)
	errs = append(errs, config.RolePolicy().Validate(field.NewPath("delegation", "openStackRoles"))...)
	return append(errs, config.Policy().Validate(field.NewPath("delegation", "keepWarrants"))...)
}

func validateMode(mode Mode, at *field.Path) field.ErrorList {
	switch mode {
	case Enforce, Warn, Off:
		return nil
	default:
		return field.ErrorList{field.NotSupported(at.Child("mode"), mode, []Mode{Enforce, Warn, Off})}
	}
}

func validateRepair(repair Repair, at *field.Path) field.ErrorList {
	errs := validateMode(repair.Mode, at)
	if repair.After.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("after"), repair.After.Duration.String(), "must not be negative"))
	}
	return append(errs, validateAtLeastOne(repair.WorkspacesPerSecond, at.Child("workspacesPerSecond"))...)
}

func validateAtLeastOne(value int32, at *field.Path) field.ErrorList {
	if value < 1 {
		return field.ErrorList{field.Invalid(at, value, "must be at least 1")}
	}
	return nil
}

func validateMachine(machine Machine, openStack OpenStack, audit Mode, at *field.Path) field.ErrorList {
	errs := validateMode(machine.Mode, at)
	switch unknown := machine.Unknown; {
	case unknown == AdmitFirstClaims && audit == Off:
		errs = append(errs, field.Invalid(at.Child("unknown"), unknown, "needs audit.mode, because nothing else checks the admitted claims later"))
	case unknown != "" && unknown != AdmitFirstClaims && unknown != Deny && unknown != Admit:
		errs = append(errs, field.NotSupported(at.Child("unknown"), unknown, []UnknownPolicy{AdmitFirstClaims, Deny, Admit}))
	}
	seen := map[string]bool{}
	for _, kind := range []MachineKind{cloudSigmaMachine, openStackMachine} {
		seen[kind.Resource+"."+kind.Group] = true
	}
	for i, kind := range machine.Kinds {
		at := at.Child("kinds").Index(i)
		errs = append(errs, validateMachineKind(kind, at)...)
		name := kind.Resource + "." + kind.Group
		if seen[name] {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
		if kind.Provider == ProviderOpenStack && !openStack.Enabled() {
			errs = append(errs, field.Invalid(at.Child("provider"), kind.Provider, "needs openStack.authURLs, the Keystones that may be called"))
		}
	}
	return errs
}

// builtInUserKinds and builtInCredentialKinds are the resources that a file cannot configure.
var (
	builtInUserKinds       = []string{"cloudsigmaclusters.infrastructure.cluster.x-k8s.io", "kdcclusters.k8s.kube-dc.com", "secrets."}
	builtInCredentialKinds = []string{
		"openstackclusters.infrastructure.cluster.x-k8s.io", "openstackmachines.infrastructure.cluster.x-k8s.io", "clusters.cluster.x-k8s.io", "secrets.",
	}
)

func validateImpersonation(impersonation ClusterImpersonation, at *field.Path) field.ErrorList {
	errs := validateMode(impersonation.Mode, at)
	seen := map[string]bool{}
	for i, kind := range impersonation.Kinds {
		at := at.Child("kinds").Index(i)
		errs = append(errs, validateKind(kind.Group, kind.Version, kind.Kind, kind.Resource, at)...)
		errs = append(errs, validateUnique(seen, builtInUserKinds, kind.Resource+"."+kind.Group, at)...)
		switch {
		case kind.EmailPath == "" && len(kind.Annotations) == 0:
			errs = append(errs, field.Required(at.Child("emailPath"), "at least one of emailPath and annotations must be set"))
		case kind.EmailPath != "" && !fieldPathPattern.MatchString(kind.EmailPath):
			errs = append(errs, field.Invalid(at.Child("emailPath"), kind.EmailPath, "must be a path of fields, such as spec.userEmail"))
		}
		for j, key := range kind.Annotations {
			for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
				errs = append(errs, field.Invalid(at.Child("annotations").Index(j), key, problem))
			}
		}
	}
	return errs
}

// validateUnique returns an error if name is in seen or builtIn, and adds it to seen otherwise.
func validateUnique(seen map[string]bool, builtIn []string, name string, at *field.Path) field.ErrorList {
	if seen[name] || slices.Contains(builtIn, name) {
		return field.ErrorList{field.Duplicate(at, name)}
	}
	seen[name] = true
	return nil
}

// validateKind returns errors unless all names of a kind of objects are well-formed.
func validateKind(group, version, kind, resource string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	invalid := func(name, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, field.Invalid(at.Child(name), value, problem))
		}
	}
	invalid("group", group, validation.IsDNS1123Subdomain(group))
	invalid("version", version, validation.IsDNS1035Label(version))
	invalid("resource", resource, validation.IsDNS1035Label(resource))
	invalid("kind", kind, validation.IsDNS1035Label(strings.ToLower(kind)))
	return errs
}

func validateMachineKind(kind MachineKind, at *field.Path) field.ErrorList {
	errs := validateKind(kind.Group, kind.Version, kind.Kind, kind.Resource, at)
	invalid := func(name, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, field.Invalid(at.Child(name), value, problem))
		}
	}
	const aPath = "must be a path of fields, such as status.instanceID"
	if !fieldPathPattern.MatchString(kind.InstanceIDPath) {
		invalid("instanceIDPath", kind.InstanceIDPath, []string{aPath})
	}
	if !fieldPathPattern.MatchString(kind.ProviderIDPath) {
		invalid("providerIDPath", kind.ProviderIDPath, []string{aPath})
	}
	if kind.IdentityRefPath != "" && !fieldPathPattern.MatchString(kind.IdentityRefPath) {
		invalid("identityRefPath", kind.IdentityRefPath, []string{"must be a path of fields, such as spec.identityRef"})
	}
	if kind.Provider != ProviderCloudSigma && kind.Provider != ProviderOpenStack {
		errs = append(errs, field.NotSupported(at.Child("provider"), kind.Provider, []Provider{ProviderCloudSigma, ProviderOpenStack}))
	}
	return errs
}

func validateControllerManager(manager ControllerManager, at *field.Path) field.ErrorList {
	errs := validateMode(manager.Mode, at)
	if manager.Mode == Off {
		return errs
	}
	if manager.Selector != nil || len(manager.Objects) == 0 {
		errs = append(errs, validateSelector(manager.Selector, at.Child("selector"),
			"without labels, every Deployment would be treated as a cloud controller manager")...)
	}
	for i, object := range manager.Objects {
		errs = append(errs, validateObject(object.Namespace, object.Name, slices.Contains(manager.Objects[:i], object), at.Child("objects").Index(i))...)
	}
	for i, command := range manager.Commands {
		if command == "" || strings.Contains(command, "$") {
			errs = append(errs, field.Invalid(at.Child("commands").Index(i), command, "must be a program, without variables"))
		}
	}
	for i, flag := range manager.Flags {
		if flag == "" || strings.HasPrefix(flag, "-") || strings.ContainsAny(flag, "=$") {
			errs = append(errs, field.Invalid(at.Child("flags").Index(i), flag, "must be the name of a flag, without dashes and value"))
		}
	}
	errs = append(errs, metav1validation.ValidateLabelName(manager.ClusterNameLabel, at.Child("clusterNameLabel"))...)
	for _, problem := range validation.IsDNS1123Subdomain(manager.SecretName) {
		errs = append(errs, field.Invalid(at.Child("secretName"), manager.SecretName, problem))
	}
	return errs
}

// validateObject validates a reference to an object. duplicate is true if an earlier entry is equal.
func validateObject(namespace, name string, duplicate bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if duplicate {
		errs = append(errs, field.Duplicate(at, namespace+"/"+name))
	}
	for _, problem := range validation.IsDNS1123Label(namespace) {
		errs = append(errs, field.Invalid(at.Child("namespace"), namespace, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at.Child("name"), name, problem))
	}
	return errs
}

// validateSelector returns errors unless selector is valid and has at least one requirement. An empty selector selects all objects.
func validateSelector(selector *metav1.LabelSelector, at *field.Path, why string) field.ErrorList {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(at, why)}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

func validateDelegation(delegation ClusterDelegation, openStack OpenStack, at *field.Path) field.ErrorList {
	errs := validateMode(delegation.Mode, at)
	seen := map[string]bool{}
	for i, kind := range delegation.Kinds {
		at := at.Child("kinds").Index(i)
		errs = append(errs, validateKind(kind.Group, kind.Version, kind.Kind, kind.Resource, at)...)
		errs = append(errs, validateUnique(seen, builtInCredentialKinds, kind.Resource+"."+kind.Group, at)...)
		if !fieldPathPattern.MatchString(kind.IdentityRefPath) {
			errs = append(errs, field.Invalid(at.Child("identityRefPath"), kind.IdentityRefPath, "must be a path of fields, such as spec.identityRef"))
		}
		if !openStack.Enabled() {
			errs = append(errs, field.Invalid(at, kind.Resource+"."+kind.Group, "needs openStack.authURLs, the Keystones that may be called"))
		}
	}
	if delegation.Through != ApplicationCredential && delegation.Through != Trust {
		errs = append(errs, field.NotSupported(at.Child("through"), delegation.Through, []DelegationWay{ApplicationCredential, Trust}))
	}
	if unrestricted := delegation.UnrestrictedApplicationCredentials; unrestricted != WarnOfUnrestricted && unrestricted != DenyUnrestricted {
		errs = append(errs, field.NotSupported(at.Child("unrestrictedApplicationCredentials"), unrestricted,
			[]UnrestrictedPolicy{WarnOfUnrestricted, DenyUnrestricted}))
	}
	return append(errs, delegation.Operators.policy().Validate(at.Child("operators"))...)
}

func validateOpenStack(openStack OpenStack, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, authURL := range openStack.AuthURLs {
		parsed, err := url.Parse(authURL)
		if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			if err == nil {
				authURL = parsed.Redacted()
			}
			errs = append(errs, field.Invalid(at.Child("authURLs").Index(i), authURL, "must be a URL without user, query and fragment, such as https://keystone.example.com:5000/v3"))
		}
	}
	return append(errs, validateAtLeastOne(openStack.Concurrency, at.Child("concurrency"))...)
}

func validateKeystonePolicy(policy KeystonePolicy, at *field.Path) field.ErrorList {
	errs := validateMode(policy.Mode, at)
	if policy.Mode == Off {
		return errs
	}
	if policy.Selector != nil || len(policy.Objects) == 0 {
		errs = append(errs, validateSelector(policy.Selector, at.Child("selector"),
			"without labels, every ConfigMap and Secret would be treated as a policy")...)
	}
	for i, object := range policy.Objects {
		errs = append(errs, validateObject(object.Namespace, object.Name, slices.Contains(policy.Objects[:i], object), at.Child("objects").Index(i))...)
	}
	if _, err := oslopolicy.ParseRelease(policy.KeystoneRelease); err != nil {
		errs = append(errs, field.NotSupported(at.Child("keystoneRelease"), oslopolicy.Release(policy.KeystoneRelease), oslopolicy.Releases()))
	}
	for i, pattern := range policy.KnownRules {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, field.Invalid(at.Child("knownRules").Index(i), pattern, "must be a pattern of path.Match, such as \"identity:scim_*\""))
		}
	}
	errs = append(errs, validateKeys(policy.Keys, at.Child("keys"))...)
	for i, base := range policy.Base {
		object := KeystonePolicyObject{Namespace: base.Namespace, Name: base.Name}
		isSame := func(other KeystonePolicyBase) bool {
			return other.Namespace == base.Namespace && other.Name == base.Name
		}
		at := at.Child("base").Index(i)
		errs = append(errs, validateObject(object.Namespace, object.Name, slices.ContainsFunc(policy.Base[:i], isSame), at)...)
		errs = append(errs, validateKeys(base.Keys, at.Child("keys"))...)
	}
	return errs
}

func validateKeys(keys []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, key := range keys {
		for _, problem := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(at.Index(i), key, problem))
		}
	}
	return errs
}

func validateAudit(audit Audit, at *field.Path) field.ErrorList {
	errs := validateMode(audit.Mode, at)
	if audit.Interval.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("interval"), audit.Interval.Duration.String(), "must not be negative"))
	}
	seen := map[AuditProvider]bool{}
	for i, provider := range audit.Providers {
		at := at.Child("providers").Index(i)
		if !workspacePattern.MatchString(provider.Workspace) {
			errs = append(errs, field.Invalid(at.Child("workspace"), provider.Workspace, "must be the path of a workspace, such as root:provider, or its logical cluster"))
		}
		for _, problem := range validation.IsDNS1123Subdomain(provider.APIExport) {
			errs = append(errs, field.Invalid(at.Child("apiExport"), provider.APIExport, problem))
		}
		if seen[provider] {
			errs = append(errs, field.Duplicate(at, provider))
		}
		seen[provider] = true
	}
	return append(errs, validateAtLeastOne(audit.RequestsPerSecond, at.Child("requestsPerSecond"))...)
}

func validateCloudSigma(cloud CloudSigma, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, region := range cloud.Regions {
		if !ownership.RegionPattern.MatchString(region) {
			errs = append(errs, field.Invalid(at.Child("regions").Index(i), region, "must match "+ownership.RegionPattern.String()))
		}
	}
	if !ownership.RegionPattern.MatchString(cloud.DefaultRegion) {
		errs = append(errs, field.Invalid(at.Child("defaultRegion"), cloud.DefaultRegion, "must match "+ownership.RegionPattern.String()))
	}
	errs = append(errs, validateTemplate(cloud.API, at.Child("api"))...)
	errs = append(errs, validateTemplate(cloud.LegacyAPI, at.Child("legacyAPI"))...)
	errs = append(errs, validateTemplate(cloud.ServiceProviderAPI, at.Child("serviceProviderAPI"))...)
	if !strings.HasPrefix(cloud.TokenPath, "/") || path.Clean(cloud.TokenPath) != cloud.TokenPath || strings.ContainsAny(cloud.TokenPath, "?#%") {
		errs = append(errs, field.Invalid(at.Child("tokenPath"), cloud.TokenPath, "must be a plain path that begins with /"))
	}
	if cloud.Flow != ServiceProvider && cloud.Flow != TokenExchange {
		errs = append(errs, field.NotSupported(at.Child("flow"), cloud.Flow, []ImpersonationFlow{ServiceProvider, TokenExchange}))
	}
	return append(errs, validateAtLeastOne(cloud.Concurrency, at.Child("concurrency"))...)
}

// validateTemplate returns an error unless template is a URL to which tokens may be sent, after the region has replaced {region}.
func validateTemplate(template string, at *field.Path) field.ErrorList {
	parsed, err := url.Parse(strings.ReplaceAll(template, regionMark, "region"))
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		if err == nil {
			template = strings.ReplaceAll(parsed.Redacted(), "region", regionMark)
		}
		return field.ErrorList{field.Invalid(at, template, "must be an https URL without user, query and fragment; {region} stands for the region")}
	}
	return nil
}
