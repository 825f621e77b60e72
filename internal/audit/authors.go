package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/message"
)

const (
	// maxLost is the room for a message with the commands that grant a permission, in bytes. An Event has 1,024 bytes.
	maxLost = 800
	// authorsTimeout limits the requests for all authors.
	authorsTimeout = 5 * time.Minute
)

// authors checks again whether those who named the users of clusters may impersonate them: the author of the cluster, and that of the Secret
// if one names the user. Each could let the cluster act as another user. The error contains the first failure for each provider, whose
// remaining clusters were then not checked.
func (a *Audit) authors(ctx context.Context) ([]Finding, error) {
	if a.Checker == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, authorsTimeout)
	defer cancel()
	var findings []Finding
	checks := map[logicalcluster.Name]*authorCheck{}
	failed := map[logicalcluster.Name]error{}
	for cluster, object := range a.Objects.Clusters() {
		named, err := a.Objects.Named(ctx, cluster)
		if err == nil && (named.User == "" || failed[named.Provider] != nil) {
			continue
		}
		check := checks[named.Provider]
		if err == nil && check == nil {
			check = &authorCheck{verdicts: map[authorKey]authorVerdict{}}
			check.checker, err = a.Checker(named.Provider)
			checks[named.Provider] = check
		}
		var found []Finding
		if err == nil {
			found, err = check.of(ctx, named, object)
		}
		if err != nil {
			failed[named.Provider] = fmt.Errorf("authors of the users of clusters: %w", err)
			continue
		}
		for _, f := range found {
			findings = append(findings, place{in: cluster.LogicalCluster, object: object}.finding(f))
		}
	}
	return findings, errors.Join(slices.Collect(maps.Values(failed))...)
}

// authorCheck checks the authors of the clusters of one provider.
type authorCheck struct {
	checker *impersonation.Checker
	// verdicts are those of this run. Many clusters have the same author and user.
	verdicts map[authorKey]authorVerdict
}

type authorKey struct {
	user   string
	record [sha256.Size]byte
}

type authorVerdict struct {
	impersonation.Verdict
	// outOfScope is the text of an impersonation.OutOfScopeError, "" if there is none.
	outOfScope string
}

// of returns the findings about a cluster.
func (c *authorCheck) of(ctx context.Context, named clusterapi.Named, object corev1.ObjectReference) ([]Finding, error) {
	finding, err := c.clusterAuthor(ctx, named, object)
	if err != nil || named.Secret.Name == "" {
		return finding, err
	}
	ofSecret, err := c.secretAuthor(ctx, named)
	return append(finding, ofSecret...), err
}

func (c *authorCheck) clusterAuthor(ctx context.Context, named clusterapi.Named, object corev1.ObjectReference) ([]Finding, error) {
	requester, valid := impersonation.Recorded(named.Record)
	if !valid {
		return authorUnknown("it is not recorded who named its user", object.Namespace, clusterapi.CloudSigmaClusters.GroupResource().String(), object.Name), nil
	}
	secret := clusterapi.UserRef{SecretNamespace: named.Secret.Namespace, SecretName: named.Secret.Name}
	if may, _, err := c.checker.MayUse(ctx, requester, secret, object.Namespace); err != nil || !may {
		return authorNotAllowed(fmt.Sprintf("user %q may not read %s; grant it again: verb get on this Secret", message.Value(requester.Username), secretOf(named))), err
	}
	verdict, err := c.verdict(ctx, named.Record, requester, named.User)
	if err != nil {
		return nil, err
	}
	switch {
	case verdict.Allowed:
		return nil, nil
	case verdict.outOfScope != "":
		return authorNotAllowed(verdict.outOfScope), nil
	case named.Secret.Name != "": // a reader of Events may not be allowed to read Secrets
		return authorNotAllowed(verdict.LostAbout("the user that " + secretOf(named) + " names")), nil
	}
	return authorNotAllowed(verdict.Lost(maxLost)), nil
}

// secretAuthor returns a finding without the author: who may read a cluster may not be allowed to read the Secret.
func (c *authorCheck) secretAuthor(ctx context.Context, named clusterapi.Named) ([]Finding, error) {
	requester, valid := impersonation.Recorded(named.SecretRecord)
	if !valid {
		return authorUnknown("it is not recorded who named the user in "+secretOf(named), named.Secret.Namespace, "secrets", named.Secret.Name), nil
	}
	verdict, err := c.verdict(ctx, named.SecretRecord, requester, named.User)
	if err != nil || verdict.Allowed {
		return nil, err
	}
	return []Finding{{Reason: ReasonAuthorNotAllowed, Message: "who named the user in " + secretOf(named) + " has no permission for it now; " + nameAgain(
		named.Secret.Namespace, "secrets", named.Secret.Name)}}, nil
}

// verdict returns whether the requester of a record may impersonate a user.
func (c *authorCheck) verdict(ctx context.Context, record string, requester authenticationv1.UserInfo, user string) (authorVerdict, error) {
	key := authorKey{user, sha256.Sum256([]byte(record))}
	if known, found := c.verdicts[key]; found {
		return known, nil
	}
	var verdict authorVerdict
	var err error
	verdict.Verdict, err = c.checker.MayImpersonate(ctx, requester, user)
	var outOfScope *impersonation.OutOfScopeError
	switch {
	case errors.As(err, &outOfScope):
		verdict.outOfScope = outOfScope.Error()
	case err != nil:
		return authorVerdict{}, err
	}
	c.verdicts[key] = verdict
	return verdict, nil
}

func authorNotAllowed(why string) []Finding {
	return []Finding{{Reason: ReasonAuthorNotAllowed, Message: "who named its user has no permission for it now: " + why}}
}

func authorUnknown(what, namespace, resource, name string) []Finding {
	return []Finding{{Reason: ReasonAuthorUnknown, Message: what + ", so the permission for it cannot be checked again; " + nameAgain(namespace, resource, name)}}
}

// nameAgain returns the advice to replace the record of an object. The value differs each time, because only a change is a write.
func nameAgain(namespace, resource, name string) string {
	return fmt.Sprintf("somebody who may impersonate the user takes it over: kubectl annotate --overwrite --namespace %s %s %s %s=$(date +%%s)",
		namespace, resource, name, clusterapi.RecordAnnotation)
}

func secretOf(named clusterapi.Named) string {
	return fmt.Sprintf("Secret %q of namespace %q", message.Value(named.Secret.Name), message.Value(named.Secret.Namespace))
}
