package impersonation

import (
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/message"
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

// Recorded returns the requester of a record. The error is for administrators.
func Recorded(record string) (authenticationv1.UserInfo, error) {
	var requester authenticationv1.UserInfo
	if json.Unmarshal([]byte(record), &requester) != nil || requester.Username == "" {
		return authenticationv1.UserInfo{}, fmt.Errorf("%q is not the requester of a request", message.Value(record))
	}
	return requester, nil
}
