package identity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Keys of the extra fields by which kcp decides where an identity is valid
// (kcp-dev/kubernetes, pkg/registry/rbac/validation).
const (
	// ClusterNameKey holds the logical cluster that a service account comes from, its home.
	ClusterNameKey = "authentication.kcp.io/cluster-name"
	// olderClusterNameKey is where kcp kept the home before it had a key of its own. kcp v0.30 and later do not read it.
	olderClusterNameKey = "authentication.kubernetes.io/cluster-name"
	// ScopesKey holds the logical clusters that an identity is restricted to: "cluster:<name>[,cluster:<name>…]".
	// The clusters within a value are alternatives; each value has to be met.
	ScopesKey = "authentication.kcp.io/scopes"
	// WarrantKey holds further identities, each JSON of a Warrant, whose rights the identity has as well.
	WarrantKey = "authorization.kcp.io/warrant"
)

const (
	scopePrefix = "cluster:"
	// globalServiceAccountPrefix starts the name by which kcp knows a service account outside its home:
	// system:kcp:serviceaccount:<home>:<namespace>:<name>.
	globalServiceAccountPrefix = "system:kcp:serviceaccount:"
)

// Bounds on what is read. Nesting doubles the quoting at each level, so an honest owner is far below all of them.
const (
	// MaxOwnerBytes is the largest owner that is looked at, in bytes.
	MaxOwnerBytes = 64 << 10
	// MaxWarrantDepth is how many warrants may be nested in one another.
	MaxWarrantDepth = 8
	// MaxWarrants is how many warrants an owner may carry, nested ones included.
	MaxWarrants = 64

	// maxAnnotationBytes is what an API server accepts of all annotations of an object together.
	maxAnnotationBytes = validation.TotalAnnotationSizeLimitB
)

// perRequestKeys name extra fields that describe one credential or the pod that held it. What is true of one
// request must not be stored as if it were true of the owner.
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
	// Username is the name that kcp acts under and that it binds to cluster-admin in the workspace.
	Username string `json:"username,omitempty"`
	// UID tells users of equal name apart.
	UID string `json:"uid,omitempty"`
	// Groups are the groups that kcp acts in.
	Groups []string `json:"groups,omitempty"`
	// Extra holds home, scopes and warrants, and whatever else the authenticator knew.
	Extra map[string][]string `json:"extra,omitempty"`
}

var (
	errEmpty    = errors.New("it is empty")
	errNoObject = errors.New("it is not a JSON object")
	errNobody   = errors.New("it names no user")
	errTooLarge = fmt.Errorf("it is larger than %d bytes", MaxOwnerBytes)
)

// ParseOwner reads an owner as kcp records it. It is strict, because a field that is not understood may be one
// that restricts the identity: unknown and repeated fields are errors, and so are values of a wrong type.
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
		return Owner{}, errNobody
	}
	return owner, nil
}

// String returns the owner in the form that kcp itself writes.
func (o Owner) String() string { return encode(o) }

// InScope tells whether the identity itself is valid in the logical cluster, by kcp's rules: a service account in
// its home, anybody within all of the scopes it carries. What its warrants are worth there is not asked.
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

// IsServiceAccount tells whether the owner goes by the name that a service account has in its home. Elsewhere that name is
// anybody's who makes a service account of it.
func (o Owner) IsServiceAccount() bool {
	return strings.HasPrefix(o.Username, serviceaccount.ServiceAccountUsernamePrefix)
}

// homes returns the logical clusters that the identity claims as its home. A home that stands under the older key as
// well is one home; one that stands twice under the same key is not, as kcp goes by the number of values.
func (o Owner) homes() []string {
	homes := slices.Clip(o.Extra[ClusterNameKey]) // so that to append copies
	for _, older := range o.Extra[olderClusterNameKey] {
		if !slices.Contains(homes, older) {
			homes = append(homes, older)
		}
	}
	return homes
}

// at returns the owner with its home under the key that kcp reads.
func (o Owner) at(home logicalcluster.Name) Owner {
	o.Extra = maps.Clone(o.Extra)
	delete(o.Extra, olderClusterNameKey)
	o.Extra[ClusterNameKey] = []string{home.String()}
	return o
}

func (o Owner) warrant() Warrant {
	return Warrant{User: o.Username, UID: o.UID, Groups: o.Groups, Extra: o.Extra}
}

func scopeOf(cluster logicalcluster.Name) string {
	return scopePrefix + cluster.String()
}

// decodeStrictly is case-sensitive and refuses unknown and repeated fields: two readers that disagree about an identity
// would be a way to forge one.
func decodeStrictly(raw string, into any) error {
	err := json.Unmarshal([]byte(raw), into, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &semantic):
		return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %q", semantic.JSONPointer)
	case semantic.JSONPointer == "":
		return errNoObject
	default:
		return fmt.Errorf("wrong type of value at %q", semantic.JSONPointer)
	}
}

// asKCP encodes as encoding/json does, with which kcp writes owners.
var asKCP = json.JoinOptions(json.Deterministic(true), json.FormatNilSliceAsNull(true),
	jsontext.AllowInvalidUTF8(true), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))

func encode(value any) string {
	raw, err := json.Marshal(value, asKCP)
	if err != nil { // strings, slices and maps of strings always marshal
		return ""
	}
	return string(raw)
}
