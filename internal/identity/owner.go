package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	strictjson "github.com/go-json-experiment/json"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Keys of extra fields that kcp uses to decide in which logical clusters an identity is valid (kcp-dev/kubernetes,
// pkg/registry/rbac/validation).
const (
	// ClusterNameKey contains the logical cluster of a service account, its home.
	ClusterNameKey = "authentication.kcp.io/cluster-name"
	// ScopesKey contains the logical clusters that an identity is restricted to: "cluster:<name>[,cluster:<name>…]". The clusters of
	// one value are alternatives, and every value must match.
	ScopesKey = "authentication.kcp.io/scopes"
	// WarrantKey contains further identities, each as JSON of a Warrant. The identity has their permissions, too.
	WarrantKey = "authorization.kcp.io/warrant"
)

const (
	scopePrefix = "cluster:"
	// globalServiceAccountPrefix is the prefix of the global name of a service account, which kcp uses outside its home:
	// system:kcp:serviceaccount:<home>:<namespace>:<name>.
	globalServiceAccountPrefix = "system:kcp:serviceaccount:"
)

// Limits of owners. Each level of nesting doubles the quoting. Owners that are not forged are far below these limits.
const (
	// MaxOwnerBytes is the maximum size of an owner, in bytes.
	MaxOwnerBytes = 64 << 10
	// MaxWarrantDepth is the maximum depth of nested warrants.
	MaxWarrantDepth = 8
	// MaxWarrants is the maximum number of warrants of an owner, including nested ones.
	MaxWarrants = 64

	// maxAnnotationBytes is the maximum size of all annotations of an object in the API server.
	maxAnnotationBytes = validation.TotalAnnotationSizeLimitB
)

// perRequestKeys are the keys of extra fields that describe the credential of one request, or its pod. They must not be stored as
// properties of the owner.
var perRequestKeys = []string{
	user.CredentialIDKey,
	serviceaccount.NodeNameKey,
	serviceaccount.NodeUIDKey,
	serviceaccount.PodNameKey,
	serviceaccount.PodUIDKey,
}

// Owner is the identity that kcp records for a workspace: authentication/v1 UserInfo, as JSON in the annotation
// experimental.tenancy.kcp.io/owner of a Workspace and LogicalCluster, and as LogicalCluster.spec.createdBy.
type Owner struct {
	// Username is the user that kcp impersonates and binds to cluster-admin in the workspace.
	Username string `json:"username,omitempty"`
	// UID distinguishes users with the same name.
	UID string `json:"uid,omitempty"`
	// Groups are the groups of the user.
	Groups []string `json:"groups,omitempty"`
	// Extra contains home, scopes and warrants, and all other extra fields of the authenticator.
	Extra map[string][]string `json:"extra,omitempty"`
}

var (
	errEmpty    = errors.New("it is empty")
	errNoObject = errors.New("it is not a JSON object")
	errNoUser   = errors.New("it names no user")
	errTooLarge = fmt.Errorf("it is larger than %d bytes", MaxOwnerBytes)
)

// ServiceAccountAt returns a service account as kcp authenticates it in its home, but without the scope of its home, which a SubjectAccessReview
// there cannot have: kcp would apply it to the maximal permission policy of an API, too, which is evaluated elsewhere.
func ServiceAccountAt(home logicalcluster.Name, namespace, name string) Owner {
	return Owner{
		Username: serviceaccount.MakeUsername(namespace, name),
		Groups:   append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
		Extra:    map[string][]string{ClusterNameKey: {home.String()}},
	}
}

// ParseOwner decodes an owner annotation. It is strict, because an unknown field may restrict the identity: unknown and repeated fields
// and values of a wrong type are errors.
func ParseOwner(raw string) (Owner, error) {
	if strings.TrimSpace(raw) == "" {
		return Owner{}, errEmpty
	}
	if len(raw) > MaxOwnerBytes {
		return Owner{}, errTooLarge
	}
	return parseOwner(raw)
}

func parseOwner(raw string) (Owner, error) {
	var owner Owner
	if err := decodeStrictly(raw, &owner); err != nil {
		return Owner{}, err
	}
	if owner.Username == "" {
		return Owner{}, errNoUser
	}
	return owner, nil
}

// String returns the owner as JSON, as kcp encodes it.
func (o Owner) String() string { return encode(o) }

// InScope reports whether the identity itself is valid in the logical cluster, by kcp's rules: a service account in its home, and every
// identity in the logical clusters that all its scopes include. Warrants do not matter.
func (o Owner) InScope(cluster logicalcluster.Name) bool {
	if homes := o.Extra[ClusterNameKey]; o.IsServiceAccount() && len(homes) > 0 && !slices.Equal(homes, []string{cluster.String()}) {
		return false
	}
	for _, alternatives := range o.Extra[ScopesKey] {
		if !slices.Contains(strings.Split(alternatives, ","), scopeOf(cluster)) {
			return false
		}
	}
	return true
}

// IsServiceAccount reports whether the owner has the name of a service account in its home. In other logical clusters, users can create
// another service account with this name.
func (o Owner) IsServiceAccount() bool {
	return strings.HasPrefix(o.Username, serviceaccount.ServiceAccountUsernamePrefix)
}

// homes returns the logical clusters that the identity claims as its home. The same home twice counts twice, because kcp counts the values. kcp
// v0.30 and later ignore the former key, authentication.kubernetes.io/cluster-name, so that everybody can claim it. A service account that
// claims no home was impersonated. kcp treats it as a local one where it is in scope, so its home is its only scope, if it has a single one.
func (o Owner) homes() []string {
	homes := slices.Clip(o.Extra[ClusterNameKey]) // append must not change the original
	if scopes := o.Extra[ScopesKey]; len(homes) == 0 && len(scopes) == 1 {
		if scope, ok := strings.CutPrefix(scopes[0], scopePrefix); ok && !strings.Contains(scope, ",") {
			homes = []string{scope}
		}
	}
	return homes
}

// Impersonated reports whether the owner is a service account that somebody impersonated: it names no home, as its token does, and has a single
// scope. That is its home if the Workspace was created there, because kcp adds the logical cluster of a request to the scopes of an
// impersonated user.
func (o Owner) Impersonated() bool {
	return o.IsServiceAccount() && len(o.Extra[ClusterNameKey]) == 0 && len(o.homes()) == 1
}

// at returns the owner with the given home, under the key that kcp reads.
func (o Owner) at(home logicalcluster.Name) Owner {
	o.Extra = maps.Clone(o.Extra)
	o.Extra[ClusterNameKey] = []string{home.String()}
	return o
}

func (o Owner) warrant() Warrant {
	return Warrant{User: o.Username, UID: o.UID, Groups: o.Groups, Extra: o.Extra}
}

func scopeOf(cluster logicalcluster.Name) string {
	return scopePrefix + cluster.String()
}

// decodeStrictly is case-sensitive and rejects unknown and repeated fields: two readers that disagree about an identity would be a way
// to forge one. Unlike encoding/json and sigs.k8s.io/json, this decoder also rejects text that is not UTF-8 and surrogates without a
// pair. The others replace these by U+FFFD, so that different names become the same name (TestParseOwnerIsStrict).
func decodeStrictly(raw string, into any) error {
	err := strictjson.Unmarshal([]byte(raw), into, strictjson.RejectUnknownMembers(true))
	var semantic *strictjson.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &semantic):
		return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
	case errors.Is(err, strictjson.ErrUnknownName):
		return fmt.Errorf("unknown field %q", semantic.JSONPointer)
	case semantic.JSONPointer == "":
		return errNoObject
	default:
		return fmt.Errorf("wrong type of value at %q", semantic.JSONPointer)
	}
}

// encode encodes an owner or warrant as kcp does.
func encode(value any) string {
	raw, err := json.Marshal(value)
	if err != nil { // strings, slices and maps of strings always marshal
		return ""
	}
	return string(raw)
}
