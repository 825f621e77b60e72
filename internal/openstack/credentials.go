package openstack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/internal/ownership"
)

// credentials are the validated credentials of a Secret.
type credentials struct {
	identity ownership.Identity
	// keystone is the URL of Keystone in canonical form.
	keystone string
	auth     *gophercloud.AuthOptions
	// ca contains the CA certificates of the Secret in PEM, nil if there are none. transport trusts them.
	ca        []byte
	transport http.RoundTripper
	// region is the default region, "" if the Secret has none.
	region string
	// availability is the interface of the endpoints.
	availability gophercloud.Availability
	// key is the digest of all fields that change the response of Keystone.
	key digest
}

// digest is a digest of credentials. It is comparable.
type digest [sha256.Size]byte

// credentials reads the Secret. The error is an *ownership.IdentityError or an *ownership.UnknownError.
func (c *Cloud) credentials(ctx context.Context, identity ownership.Identity) (*credentials, error) {
	if identity.Secret == "" {
		return nil, &ownership.IdentityError{
			Reason: IdentitySecretMissing, Message: "no Secret with credentials is referred to; name it in spec.identityRef",
		}
	}
	data, err := c.secrets(ctx, identity.Namespace, identity.Secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, unusable(identity, IdentitySecretMissing, "there is no such Secret in namespace %q; create it, or correct the reference to it", identity.Namespace)
	case err != nil:
		return nil, unread(identity, err)
	}
	with, err := parseCredentials(identity, data, c.authURLs)
	if err != nil {
		return nil, err
	}
	if with.transport, err = c.transports.of(with.ca); err != nil {
		return nil, unusable(identity, IdentityMalformed, "%v", err)
	}
	return with, nil
}

// WithSecret returns a Cloud that uses the given data for a Secret, before it is stored. It shares tokens and connections with c.
func (c *Cloud) WithSecret(namespace, name string, data map[string][]byte) *Cloud {
	proposed := *c
	proposed.secrets = func(ctx context.Context, inNamespace, named string) (map[string][]byte, error) {
		if inNamespace == namespace && named == name {
			return data, nil
		}
		return c.secrets(ctx, inNamespace, named)
	}
	return &proposed
}

// unread returns the error for a Secret that could not be read. The cause is not the content of the Secret.
func unread(identity ownership.Identity, err error) error {
	cause := ownership.CauseIdentityProvider
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		cause = ownership.CauseTimeout
	case apierrors.IsTooManyRequests(err):
		cause = ownership.CauseRateLimited
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		cause = ownership.CauseCredentials
	}
	return &ownership.UnknownError{Cause: cause, Err: fmt.Errorf("read Secret %q in namespace %q: %w", identity.Secret, identity.Namespace, err)}
}

// parseCredentials parses the data of a Secret. The error is an *ownership.IdentityError.
func parseCredentials(identity ownership.Identity, data map[string][]byte, allowed []string) (*credentials, error) {
	cloud, err := readEntry(identity, data)
	if err != nil {
		return nil, err
	}
	if cloud.Auth == nil || cloud.Auth.AuthURL == "" {
		return nil, unusable(identity, IdentityMalformed, "it has no auth.auth_url")
	}
	// Before all other fields: another cloud may support other ones.
	keystone, err := allowedKeystone(identity, cloud.Auth.AuthURL, allowed)
	if err != nil {
		return nil, err
	}
	if problem := cloud.problem(); problem != "" {
		return nil, unusable(identity, IdentityMalformed, "%s", problem)
	}
	c := &credentials{
		identity: identity, keystone: keystone, ca: data[caKey], region: cloud.RegionName,
		availability: availability(cloud.EndpointType), auth: cloud.Auth.options(),
	}
	c.auth.IdentityEndpoint = c.keystone
	if c.key, err = c.digest(); err != nil {
		return nil, unusable(identity, IdentityMalformed, "%v", err)
	}
	return c, nil
}

// authTypes are the supported values of auth_type.
var authTypes = []string{"", "password", "v3password", "v3applicationcredential"}

// problem returns the first problem of the entry: an unsupported field, or fields that programs interpret in different ways.
func (e entry) problem() string {
	a := e.Auth
	switch {
	case !slices.Contains(authTypes, e.AuthType):
		return "its auth_type is none of " + strings.Join(authTypes[1:], ", ")
	case a.Token != "":
		return "it has a token, which ends before the cluster does; use an application credential"
	case a.byApplicationCredential() && a.Password != "":
		return "it has both a password and an application credential; remove one of them"
	case a.TrustID != "" && (a.byApplicationCredential() || a.ProjectID+a.ProjectName != ""):
		return "it has a trust_id in addition to a project or an application credential; remove one of them"
	case a.SystemScope != "" && a.SystemScope != "all":
		return "its system_scope is not all"
	}
	return ""
}

func (a *auth) byApplicationCredential() bool {
	return a.ApplicationCredentialID+a.ApplicationCredentialName+a.ApplicationCredentialSecret != ""
}

// allowedKeystone returns the URL in canonical form. It must be configured, because verdicts depend on the responses of this Keystone.
func allowedKeystone(identity ownership.Identity, authURL string, allowed []string) (string, error) {
	keystone, ok := canonicalAuthURL(authURL)
	if !ok { // the URL is not repeated, because it may hold a password
		return "", unusable(identity, IdentityMalformed, "its auth_url has to be http:// or https://, a host and a path, such as %q", exampleAuthURL)
	}
	if !slices.Contains(allowed, keystone) {
		return "", unusable(identity, IdentityEndpointNotAllowed, "its auth_url is at host %.100q and is none of those configured (%s)",
			hostOf(keystone), strings.Join(allowed, ", "))
	}
	return keystone, nil
}

func hostOf(canonical string) string {
	u, err := url.Parse(canonical)
	if err != nil { // impossible: canonicalAuthURL returned it
		return ""
	}
	return u.Host
}

// options returns the credentials for gophercloud. The defaults are those of the clientconfig package of gophercloud/utils, which Cluster
// API Provider OpenStack uses.
func (a *auth) options() *gophercloud.AuthOptions {
	// domain_id and domain_name are the defaults of the IDs and names of both domains, unless they are the scope. default_domain is that of an ID
	// without a name.
	isScope := !a.byApplicationCredential() && a.ProjectID+a.ProjectName == ""
	domains := func(id, name string) (string, string) {
		if id+name == "" || !isScope {
			id, name = cmp.Or(id, a.DomainID), cmp.Or(name, a.DomainName)
		}
		if id+name == "" {
			id = a.DefaultDomain
		}
		return id, name
	}
	options := &gophercloud.AuthOptions{
		UserID: a.UserID, Username: a.Username, Password: a.Password,
		ApplicationCredentialID: a.ApplicationCredentialID, ApplicationCredentialName: a.ApplicationCredentialName,
		ApplicationCredentialSecret: a.ApplicationCredentialSecret,
		Scope:                       &gophercloud.AuthScope{},
	}
	if a.Username != "" { // the ID of a user needs no domain
		options.DomainID, options.DomainName = domains(a.UserDomainID, a.UserDomainName)
	}
	switch {
	case a.TrustID != "":
		options.Scope.TrustID = a.TrustID
	case a.ProjectID != "":
		options.Scope.ProjectID = a.ProjectID
	case a.ProjectName != "":
		options.Scope.ProjectName = a.ProjectName
		options.Scope.DomainID, options.Scope.DomainName = domains(a.ProjectDomainID, a.ProjectDomainName)
	case a.SystemScope != "":
		options.Scope.System = true
	case a.DomainID != "":
		options.Scope.DomainID = a.DomainID
	default:
		options.Scope.DomainName = a.DomainName
	}
	return options
}

// availability returns the interface in clouds.yaml, such as internal or internalURL.
func availability(name string) gophercloud.Availability {
	switch strings.TrimSuffix(name, "URL") {
	case string(gophercloud.AvailabilityInternal):
		return gophercloud.AvailabilityInternal
	case string(gophercloud.AvailabilityAdmin):
		return gophercloud.AvailabilityAdmin
	}
	return gophercloud.AvailabilityPublic
}

// digest returns a digest of the URL of Keystone, the request, and the CA certificates. The error is from gophercloud. It names missing
// fields, and contains no values.
func (c *credentials) digest() (digest, error) {
	scope, err := c.auth.ToTokenV3ScopeMap()
	if err != nil {
		return digest{}, err
	}
	request, err := c.auth.ToTokenV3CreateMap(scope)
	if err != nil {
		return digest{}, err
	}
	all, err := json.Marshal([]any{c.keystone, request, c.ca})
	if err != nil {
		return digest{}, err
	}
	return sha256.Sum256(all), nil
}

// who describes the user or application credential without its secret.
func (c *credentials) who() string {
	switch {
	case c.auth.ApplicationCredentialID != "":
		return fmt.Sprintf("application credential %.100q", c.auth.ApplicationCredentialID)
	case c.auth.ApplicationCredentialName != "":
		return fmt.Sprintf("application credential %.100q of user %.100q", c.auth.ApplicationCredentialName, cmp.Or(c.auth.Username, c.auth.UserID))
	}
	return fmt.Sprintf("user %.100q", cmp.Or(c.auth.Username, c.auth.UserID))
}
