// Package ownership answers one question for every cloud: does this instance belong to the user whom a machine acts
// as?
//
// It knows neither admission requests nor the API of any cloud. A cloud is asked through the interface Cloud; what it
// answered is a value, and an error means that there is no answer, so that the caller has to refuse.
package ownership

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Account is whose instances a machine may name: a user, in a region of a cloud. It is comparable.
type Account struct {
	// Cloud is the word for the cloud, such as "cloudsigma".
	Cloud string
	// User is the user that the machine's provider acts as, in the cloud's own terms: an email at CloudSigma. It is "" where
	// Identity says it, and for the one account of credentials that all clusters share.
	User string
	// Identity is what the machine's provider acts with where clusters bring their own credentials, as with OpenStack.
	Identity Identity
	// Region is the place of the cloud that the instance is in, "" for the one that the credentials name.
	Region string
}

// Identity refers to credentials in a Secret. It is comparable; the zero value is none.
type Identity struct {
	// Namespace and Secret are where they are.
	Namespace, Secret string
	// Entry is the one of several in that Secret: a cloud of its clouds.yaml.
	Entry string
}

// String names the credentials for people who work in their namespace.
func (i Identity) String() string { return fmt.Sprintf("cloud %q of Secret %q", i.Entry, i.Secret) }

// Owner names whose instances they are as a person would.
func (a Account) Owner() string {
	switch {
	case a.Identity != Identity{}:
		return fmt.Sprintf("the project of %s", a.Identity)
	case a.User == "":
		return "the one account that all clusters share"
	}
	return fmt.Sprintf("user %q", a.User)
}

// Acting relates the owner to the cluster whose provider acts so, in the words of a sentence.
func (a Account) Acting(cluster string) string {
	if (a.Identity != Identity{}) {
		return fmt.Sprintf("with which cluster %q acts", cluster)
	}
	return fmt.Sprintf("as whom cluster %q acts", cluster)
}

// Place names where the instances are, in the words of a sentence.
func (a Account) Place() string {
	if a.Region == "" {
		return "the region of its credentials"
	}
	return fmt.Sprintf("region %q", a.Region)
}

// Claim is what a machine object says: this instance is mine.
type Claim struct {
	Account
	// ID is the instance's UUID in lower case.
	ID string
	// Name is the machine's name, which providers give to the instance.
	Name string
	// MachineUID is the UID of the machine object, which some providers leave on the instance.
	MachineUID string
}

// Verdict is what a cloud says of a claim. The zero value is no verdict.
type Verdict string

// Verdicts.
const (
	// Owned: the instance is the user's.
	Owned Verdict = "Owned"
	// Foreign: the instance exists and is somebody else's.
	Foreign Verdict = "Foreign"
	// Absent: there is no such instance.
	Absent Verdict = "Absent"
)

// Instance is one instance of a user.
type Instance struct {
	// ID is its UUID in lower case, Name what the user sees, MachineUID the machine that it was made for, if that is known.
	ID, Name, MachineUID string
}

// Answer is a verdict and what it rests on.
type Answer struct {
	Verdict Verdict
	// UserID is the cloud's own id of the user, or of the project where instances belong to one; "" where the cloud did not
	// tell.
	UserID string
	// CreatorID is the cloud's own id of the user that made the instance, "" where the cloud did not tell. It is for the
	// operator only: it can be another tenant's.
	CreatorID string
	// Response says in short what kind of answer the cloud gave, such as "403 permission". It holds nothing of the
	// answer's body that could name another user.
	Response string
	// RequestID is the id by which the cloud's support finds the request, "" where there is none.
	RequestID string
	// Candidates are the user's own instances that the claim may have meant, by name or by machine UID. Only refusals have them.
	Candidates []Instance
}

// Cause says why there is no verdict, as a word for metrics and people.
type Cause string

// Causes.
const (
	// CauseTimeout: no answer in time.
	CauseTimeout Cause = "Timeout"
	// CauseRateLimited: the cloud or the identity provider asks for fewer requests.
	CauseRateLimited Cause = "RateLimited"
	// CauseCloud: the cloud failed, could not be reached, or its answer could not be understood.
	CauseCloud Cause = "CloudUnavailable"
	// CauseIdentityProvider: the identity provider failed, could not be reached, or its answer could not be understood.
	CauseIdentityProvider Cause = "IdentityProviderUnavailable"
	// CauseNotImpersonable: the identity provider refuses to let warrantgate act for the user.
	CauseNotImpersonable Cause = "UserNotImpersonable"
	// CauseCredentials: the identity provider or the cloud refuses warrantgate's own credentials.
	CauseCredentials Cause = "CredentialsRefused"
	// CauseBusy: too many questions of all tenants are waiting already.
	CauseBusy Cause = "TooManyQuestions"
	// CauseTenantBusy: too many questions of the tenant itself are waiting already.
	CauseTenantBusy Cause = "TooManyRequests"
	// CauseRegion: the region may not be asked; see RegionError.
	CauseRegion Cause = "RegionNotAllowed"
	// CauseIdentity: the credentials that the cluster brings are of no use; see IdentityError.
	CauseIdentity Cause = "IdentityUnusable"
)

// Explain says for people what a cause means and what to do.
func (c Cause) Explain() string {
	switch c {
	case CauseTimeout:
		return "the cloud or its identity provider did not answer in time; try again"
	case CauseRateLimited:
		return "the cloud or its identity provider asks for fewer requests; try again later"
	case CauseIdentityProvider:
		return "the identity provider does not answer as it should; try again"
	case CauseNotImpersonable:
		return "the identity provider does not let warrantgate act for this user; have it allowed there, or correct the user of the cluster"
	case CauseCredentials:
		return "warrantgate's own credentials are refused; whoever runs it has to renew them"
	case CauseRegion:
		return "the region may not be asked; correct the cluster, or have the region allowed in the configuration"
	case CauseIdentity:
		return "the credentials that the cluster refers to cannot be used; correct them, or what refers to them"
	case CauseBusy:
		return "too many questions to the cloud are waiting; try again"
	case CauseTenantBusy:
		return "too many machines of this namespace (on kcp: of this workspace) are being checked already; " +
			"send fewer at the same time, and try again in a few seconds"
	case CauseCloud:
	}
	return "the cloud does not answer as it should; try again"
}

// Reasons, as words for metrics, status causes and Events.
const (
	// ReasonNotOwned: a machine names an instance of somebody else.
	ReasonNotOwned = "InstanceNotOwned"
	// ReasonNotFound: a machine names an instance that does not exist.
	ReasonNotFound = "InstanceNotFound"
	// ReasonConflict: two machines name the same instance.
	ReasonConflict = "InstanceIDConflict"
	// ReasonInvalid: what a machine names is no instance ID.
	ReasonInvalid = "InstanceIDInvalid"
	// ReasonMismatch: the two fields of a machine name different instances.
	ReasonMismatch = "InstanceIDMismatch"
	// ReasonWithoutCluster: a machine does not say which cluster it is of.
	ReasonWithoutCluster = "MachineWithoutCluster"
	// ReasonUnknown: it could not be told whose the instance is.
	ReasonUnknown = "OwnershipUnknown"
)

// RegionError says that a cluster names a region that may not be asked, or none at all.
type RegionError struct {
	// Region is what the cluster names, Allowed what it may name; none means any that looks like a region.
	Region  string
	Allowed []string
}

// Error implements error.
func (e *RegionError) Error() string {
	if len(e.Allowed) == 0 {
		return fmt.Sprintf("%.100q is no region: it has to be a letter and at most 31 letters, digits and dashes, in lower case, such as %q", e.Region, "zrh")
	}
	return fmt.Sprintf("region %.100q is none of those configured (%s)", e.Region, strings.Join(e.Allowed, ", "))
}

// IdentityError says that the credentials that a cluster brings cannot be used, and that it is not the cloud's fault. It is
// for the person who wrote them, and has no secret.
type IdentityError struct {
	// Reason is a word in CamelCase.
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

// Error implements error.
func (e *IdentityError) Error() string { return e.Message }

// UnknownError is the error where there is no verdict. Its text has no secret, no token and no body of an answer.
type UnknownError struct {
	Cause Cause
	// RequestID is the id of the cloud's request that failed, if there was one.
	RequestID string
	// RetryAfter is how long the other side asked to be left alone, 0 if it did not say.
	RetryAfter time.Duration
	// Err says more, for the operator's log.
	Err error
}

// Error implements error.
func (e *UnknownError) Error() string { return fmt.Sprintf("%s: %v", e.Cause, e.Err) }

// Unwrap returns the error that caused this one.
func (e *UnknownError) Unwrap() error { return e.Err }

// Cloud is a cloud that can be asked. It caches tokens, but no verdicts.
type Cloud interface {
	// Ask finds out whose the claimed instance is. It returns an *UnknownError where it could not, a *RegionError where the
	// region may not be asked, and an *IdentityError where the account's own credentials are of no use.
	Ask(ctx context.Context, claim Claim) (Answer, error)
	Lister
}

// Lister lists instances.
type Lister interface {
	// Instances lists all instances of an account and the number of requests that this took. Its errors are those of Ask of a
	// Cloud.
	Instances(ctx context.Context, account Account) (instances []Instance, requests int, err error)
}
