package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/message"
)

// maxGrant is the room for a message with the commands that grant a permission, in bytes. An Event has 1,024 bytes.
const maxGrant = 800

// authors checks again whether those who named the users of clusters may impersonate them. One of the cluster's author and the Secret's is
// sufficient, because the write of either is checked against the other's state. An error means that the remaining clusters were not checked.
func (a *Audit) authors(ctx context.Context) ([]Finding, error) {
	if a.Checker == nil {
		return nil, nil
	}
	var findings []Finding
	checkers := map[logicalcluster.Name]*impersonation.Checker{}
	for cluster, object := range a.Objects.Clusters() {
		named, err := a.Objects.Named(ctx, cluster)
		if err != nil {
			return findings, fmt.Errorf("authors of clusters: %w", err)
		}
		if named.User == "" {
			continue
		}
		checker := checkers[named.Provider]
		if checker == nil {
			if checker, err = a.Checker(named.Provider); err != nil {
				return findings, err
			}
			checkers[named.Provider] = checker
		}
		finding, err := author(ctx, checker, named)
		switch {
		case err != nil:
			return findings, fmt.Errorf("permissions of the authors of clusters: %w", err)
		case finding.Reason == ReasonAuthorUnknown:
			finding.Message += fmt.Sprintf("; somebody who may impersonate the user adds the record: kubectl annotate --overwrite --namespace %s %s %s %s=me",
				object.Namespace, clusterapi.CloudSigmaClusters.GroupResource(), object.Name, clusterapi.RecordAnnotation)
		case finding.Reason == "":
			continue
		}
		findings = append(findings, place{in: cluster.LogicalCluster, object: object}.finding(finding))
	}
	return findings, nil
}

// author returns a finding if none of the recorded authors may impersonate the user. The finding is empty if one may.
func author(ctx context.Context, checker *impersonation.Checker, named clusterapi.Named) (Finding, error) {
	unknown := Finding{Reason: ReasonAuthorUnknown, Message: "it is not recorded who named its user, so the permission for it cannot be checked again"}
	found := unknown
	for _, record := range named.Records {
		requester, err := impersonation.Recorded(record)
		if err != nil {
			continue
		}
		verdict, err := checker.MayImpersonate(ctx, requester, named.User)
		var outOfScope *impersonation.OutOfScopeError
		switch {
		case errors.As(err, &outOfScope):
			found = Finding{Reason: ReasonAuthorNotAllowed, Message: "who named its user has no permission for it now: " + outOfScope.Error()}
		case err != nil:
			return Finding{}, err
		case verdict.Allowed:
			return Finding{}, nil
		case named.Secret.Name != "": // a reader of Events may not be allowed to read Secrets
			found = Finding{Reason: ReasonAuthorNotAllowed, Message: "who named its user has no permission for it now: " + verdict.MessageAbout(
				fmt.Sprintf("the user that Secret %q of namespace %q names", message.Value(named.Secret.Name), message.Value(named.Secret.Namespace)))}
		default:
			found = Finding{Reason: ReasonAuthorNotAllowed, Message: "who named its user has no permission for it now: " + verdict.Message(maxGrant)}
		}
	}
	return found, nil
}
