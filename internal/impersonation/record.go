package impersonation

import (
	"encoding/json"

	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/identity"
)

// recordedExtra are the extra fields that determine permissions. Others may contain credentials, or differ in each request.
var recordedExtra = []string{identity.ClusterNameKey, identity.ScopesKey, identity.WarrantKey}

// Record returns the requester in JSON, for clusterapi.RecordAnnotation. It is the same for all requests of the requester. It is "" if it would be
// larger than clusterapi.MaxRecord.
func Record(requester authenticationv1.UserInfo) string {
	kept := authenticationv1.UserInfo{Username: requester.Username, UID: requester.UID, Groups: requester.Groups}
	for _, key := range recordedExtra {
		if values, found := requester.Extra[key]; found {
			if kept.Extra == nil {
				kept.Extra = map[string]authenticationv1.ExtraValue{}
			}
			kept.Extra[key] = values
		}
	}
	encoded, err := json.Marshal(kept)
	if err != nil || len(encoded) > clusterapi.MaxRecord { // strings can always be encoded
		return ""
	}
	return string(encoded)
}

// Recorded returns the requester of a record. valid is false if it is not one that Record returns.
func Recorded(record string) (requester authenticationv1.UserInfo, valid bool) {
	err := json.Unmarshal([]byte(record), &requester)
	return requester, err == nil && requester.Username != ""
}
