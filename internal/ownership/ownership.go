// Package ownership decides for every cloud whether an instance belongs to the user that the provider of a machine acts as.
//
// It has no dependency on admission requests or on the API of a cloud. It calls a cloud by the interface Cloud. A verdict is a value. An
// error means that there is no verdict.
package ownership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Account is a user of a cloud, in a region. A machine may name the instances of its account only. It is comparable.
type Account struct {
	// Cloud is the name of the cloud, such as "cloudsigma".
	Cloud string
	// User is the user that the machine's provider acts as: an email at CloudSigma. It is empty if Identity is set, and if the cluster shares
	// an account with others (legacy credentials).
	User string
	// UserSecret is the Secret of another namespace that contains User, if there is one. Messages name the Secret instead of the user, because
	// their readers may not be allowed to read it.
	UserSecret types.NamespacedName
	// Identity refers to the credentials of the machine's provider, if each cluster has its own credentials, as with OpenStack.
	Identity Identity
	// Region is the region of the instance. If empty, it is the region of the credentials.
	Region string
}

// Identity refers to credentials in a Secret. It is comparable. The zero value means none.
type Identity struct {
	// Namespace and Secret are the namespace and name of the Secret.
	Namespace, Secret string
	// Entry is the name of the credentials in the Secret: a cloud of its clouds.yaml.
	Entry string
}

// String describes the credentials in messages to users of their namespace.
func (i Identity) String() string { return fmt.Sprintf("cloud %q of Secret %q", i.Entry, i.Secret) }

// Plain returns the account as that of a cluster that names its user itself. It is equal for equal users.
func (a Account) Plain() Account {
	a.UserSecret = types.NamespacedName{}
	return a
}

// Owner describes the owner of the instances in messages.
func (a Account) Owner() string {
	switch {
	case a.Identity != Identity{}:
		return fmt.Sprintf("the project of %s", a.Identity)
	case a.User == "":
		return "the shared account (legacy credentials)"
	case a.UserSecret != types.NamespacedName{}:
		return fmt.Sprintf("the user that Secret %q of namespace %q names", a.UserSecret.Name, a.UserSecret.Namespace)
	}
	return fmt.Sprintf("user %q", a.User)
}

// Place describes the region of the instances in messages.
func (a Account) Place() string {
	if a.Region == "" {
		return "the region of its credentials"
	}
	return fmt.Sprintf("region %q", a.Region)
}

// Claim is the instance that a machine object names, and the account of its provider.
type Claim struct {
	Account
	// ID is the UUID of the instance in lower case.
	ID string
	// Name is the name of the machine. Providers use it as the name of the instance.
	Name string
	// MachineUID is the UID of the machine object. Some providers store it in the instance.
	MachineUID string
}

// Verdict is the result for a claim. The zero value is no verdict.
type Verdict string

// Verdicts.
const (
	// Owned: the instance belongs to the user.
	Owned Verdict = "Owned"
	// Foreign: the instance exists and belongs to another user.
	Foreign Verdict = "Foreign"
	// Absent: the instance does not exist.
	Absent Verdict = "Absent"
)

// Instance is an instance of a user.
type Instance struct {
	// ID is the UUID in lower case, Name the name, and MachineUID the UID of its machine object, if known.
	ID, Name, MachineUID string
}

// SortInstances sorts instances by name and ID, and returns them.
func SortInstances(instances []Instance) []Instance {
	slices.SortFunc(instances, func(a, b Instance) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return instances
}

// Candidates returns the first ten instances, for a denial.
func Candidates(instances []Instance) []Instance {
	sorted := SortInstances(instances)
	return sorted[:min(len(sorted), 10)]
}

// Answer is a verdict with its details.
type Answer struct {
	Verdict Verdict
	// UserID is the ID of the user in the cloud, or of the project if instances belong to projects. It is empty if unknown.
	UserID string
	// CreatorID is the ID of the user that created the instance, if known. It is for the operator only, because it may be the user of
	// another tenant.
	CreatorID string
	// Response is the status of the cloud's response, such as "403 permission". It contains no part of the body that could name another
	// user.
	Response string
	// RequestID is the ID of the request for the support of the cloud, if there is one.
	RequestID string
	// Candidates are instances of the user with the name or the machine UID of the claim. They are set for denials only.
	Candidates []Instance
}

// Cause is the reason why there is no verdict, for metrics and messages.
type Cause string

// Causes.
const (
	// CauseTimeout: a timeout of the cloud or the identity provider.
	CauseTimeout Cause = "Timeout"
	// CauseRateLimited: the cloud or the identity provider answered 429.
	CauseRateLimited Cause = "RateLimited"
	// CauseCloud: the cloud failed, is unreachable, or sent an invalid response.
	CauseCloud Cause = "CloudUnavailable"
	// CauseIdentityProvider: the identity provider failed, is unreachable, or sent an invalid response.
	CauseIdentityProvider Cause = "IdentityProviderUnavailable"
	// CauseNotImpersonable: the identity provider does not permit warrantgate to impersonate the user.
	CauseNotImpersonable Cause = "UserNotImpersonable"
	// CauseWrongUser: the cloud treats the token of the user as that of another user, so its answers are not about the user.
	CauseWrongUser Cause = "WrongUser"
	// CauseCredentials: the identity provider or the cloud rejects the credentials of warrantgate.
	CauseCredentials Cause = "CredentialsDenied"
	// CauseBusy: other tenants use all concurrent lookups.
	CauseBusy Cause = "Busy"
	// CauseTenantBusy: the tenant already uses its share of the concurrent lookups.
	CauseTenantBusy Cause = "TooManyRequests"
	// CauseRegion: the region is not allowed, see RegionError.
	CauseRegion Cause = "RegionNotAllowed"
	// CauseIdentity: the credentials of the cluster cannot be used, see IdentityError.
	CauseIdentity Cause = "IdentityUnusable"
)

// IsAway reports whether the cloud or its identity provider is away for warrantgate. All other causes are those of one user, account or tenant.
func (c Cause) IsAway() bool {
	switch c {
	case CauseTimeout, CauseRateLimited, CauseCloud, CauseIdentityProvider, CauseCredentials:
		return true
	case CauseNotImpersonable, CauseWrongUser, CauseBusy, CauseTenantBusy, CauseRegion, CauseIdentity:
	}
	return false
}

// Explain describes a cause and the remedy in messages to users.
func (c Cause) Explain() string {
	switch c {
	case CauseTimeout:
		return "the cloud or its identity provider did not answer in time; try again"
	case CauseRateLimited:
		return "the cloud or its identity provider limits the rate of requests; try again later"
	case CauseIdentityProvider:
		return "the identity provider is unavailable or its response is invalid; try again"
	case CauseNotImpersonable:
		return "the identity provider does not permit warrantgate to impersonate this user; allow it there, or correct the user of the cluster"
	case CauseWrongUser:
		return "the cloud treats the token of this user as that of another user; the operator of warrantgate has to correct the URL of the cloud"
	case CauseCredentials:
		return "the credentials of warrantgate are rejected; its operator has to renew them"
	case CauseRegion:
		return "the region is not allowed; correct the cluster, or have the region allowed in the configuration"
	case CauseIdentity:
		return "the credentials of the cluster cannot be used; correct them, or the reference to them"
	case CauseBusy:
		return "too many machines of others are being checked; try again"
	case CauseTenantBusy:
		return "too many machines of this namespace (on kcp: of this workspace) are being checked already; " +
			"send fewer at the same time, and try again in a few seconds"
	case CauseCloud:
	}
	return "the cloud is unavailable or its response is invalid; try again"
}

// Reasons for metrics, status causes and Events.
const (
	// ReasonNotOwned: a machine names an instance of another user.
	ReasonNotOwned = "InstanceNotOwned"
	// ReasonNotFound: a machine names an instance that does not exist.
	ReasonNotFound = "InstanceNotFound"
	// ReasonConflict: two machines name the same instance.
	ReasonConflict = "InstanceIDConflict"
	// ReasonInvalid: a machine names an invalid instance ID.
	ReasonInvalid = "InstanceIDInvalid"
	// ReasonProviderID: a machine names an invalid provider ID.
	ReasonProviderID = "ProviderIDInvalid"
	// ReasonMismatch: the two fields of a machine name different instances.
	ReasonMismatch = "InstanceIDMismatch"
	// ReasonWithoutCluster: a machine names no cluster.
	ReasonWithoutCluster = "MachineWithoutCluster"
	// ReasonUnknown: the owner of the instance is unknown.
	ReasonUnknown = "OwnershipUnknown"
)

// IdentityError means that the credentials of a cluster cannot be used. The cause is not a failure of the cloud. The text is for the user
// who wrote the credentials, and contains no secret.
type IdentityError struct {
	// Reason is the reason in CamelCase.
	Reason string
	// Message describes the error and the remedy.
	Message string
}

// Error implements error.
func (e *IdentityError) Error() string { return e.Message }

// UnknownError means that there is no verdict. Its text contains no secret, no token and no body of a response.
type UnknownError struct {
	Cause Cause
	// RequestID is the ID of the failed request to the cloud, if there is one.
	RequestID string
	// RetryAfter is the Retry-After of the response, 0 if it had none.
	RetryAfter time.Duration
	// Explanation is what Explain returns, if the cloud has a better one than Cause.Explain. It contains nothing of another user.
	Explanation string
	// Err has the details, for the operator's log.
	Err error
}

// Error implements error.
func (e *UnknownError) Error() string { return fmt.Sprintf("%s: %v", e.Cause, e.Err) }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Explain describes the cause and the remedy in messages to users.
func (e *UnknownError) Explain() string { return cmp.Or(e.Explanation, e.Cause.Explain()) }

// Cloud looks up instances in a cloud. It caches tokens, but no verdicts.
type Cloud interface {
	// Ask returns the verdict for a claim. The error is an *UnknownError if there is no verdict, a *RegionError if the region is not
	// allowed, or an *IdentityError if the credentials of the account cannot be used.
	Ask(ctx context.Context, claim Claim) (Answer, error)
	Lister
}

// Lister lists instances.
type Lister interface {
	// Instances returns all instances of an account, and the number of requests to the cloud. It has the errors of Cloud.Ask.
	Instances(ctx context.Context, account Account) (instances []Instance, requests int, err error)
}
