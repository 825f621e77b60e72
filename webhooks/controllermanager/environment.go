package controllermanager

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

// Reasons of what is wrong with a variable.
const (
	reasonNotEnabled          = "ImpersonationNotEnabled"
	reasonSecretReference     = "SecretReferenceMismatch"
	reasonClientSecretByValue = "ClientSecretByValue"
	reasonUserEmail           = "UserEmailMismatch"
	reasonRegion              = "RegionMismatch"
)

// variable is what a variable has to be.
type variable struct {
	corev1.EnvVar
	// reason is that of a Deployment where it is not so, rule says in words what it has to be.
	reason, rule string
	// identity is true where another value means to be somebody else or elsewhere. Nobody's intention is overwritten
	// there: it is refused.
	identity bool
}

// mend changes the environment of the container.
type mend struct {
	// index is the place of the variable that is replaced, -1 where one is added.
	index    int
	variable corev1.EnvVar
	// replaces is true where somebody had set it to something else.
	replaces bool
}

// wanted returns the environment of a controller manager, in the order in which it is added.
func wanted(secret, clusterName string, account ownership.Account) []variable {
	fromSecret := func(name, key string) variable {
		return variable{
			EnvVar: corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
			}}},
			reason: reasonSecretReference, rule: fmt.Sprintf("has to come from the key %s of Secret %q (valueFrom.secretKeyRef, not optional)", key, secret),
		}
	}
	return []variable{
		{EnvVar: corev1.EnvVar{Name: cloudsigma.EnvImpersonationEnabled, Value: "true"}, reason: reasonNotEnabled, rule: `has to be "true"`},
		fromSecret(cloudsigma.EnvOAuthURL, "oauth-url"),
		fromSecret(cloudsigma.EnvClientID, "client-id"),
		fromSecret(cloudsigma.EnvClientSecret, "client-secret"),
		{
			EnvVar: corev1.EnvVar{Name: cloudsigma.EnvUserEmail, Value: literal(account.User)}, reason: reasonUserEmail, identity: true,
			rule: fmt.Sprintf("has to be %q, as whom CloudSigmaCluster %q acts", literal(account.User), clusterName),
		},
		{
			EnvVar: corev1.EnvVar{Name: cloudsigma.EnvRegion, Value: literal(account.Region)}, reason: reasonRegion, identity: true,
			rule: fmt.Sprintf("has to be %q, where CloudSigmaCluster %q is", literal(account.Region), clusterName),
		},
	}
}

// literal keeps the kubelet from filling in another variable where a value has its name, as in "$(NAME)": whoever writes a
// cluster could otherwise have the client secret taken for an email. Two dollars stand for one
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables).
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// compare finds what in an environment is not as it has to be. Where a variable is there twice, each has to be right, as
// it is the container runtime that picks one.
func compare(env []corev1.EnvVar, variables []variable, at *field.Path) []finding {
	var findings []finding
	for _, want := range variables {
		missing := true
		for i, have := range env {
			if have.Name != want.Name {
				continue
			}
			missing = false
			if !want.metBy(have) {
				findings = append(findings, want.unlike(have, i, at.Index(i).String()))
			}
		}
		if missing {
			findings = append(findings, finding{
				reason: want.reason, field: at.String(), message: fmt.Sprintf("%s is missing; it %s", want.Name, want.rule),
				mend: &mend{index: -1, variable: want.EnvVar},
			})
		}
	}
	return findings
}

// metBy is true of a variable that means the same.
func (v variable) metBy(have corev1.EnvVar) bool {
	if v.Name == cloudsigma.EnvUserEmail { // in lower case, as that of the cluster: CloudSigma makes no difference either
		have.Value = strings.ToLower(have.Value)
	}
	if ref := secretKey(have); ref != nil && ref.Optional != nil && !*ref.Optional {
		have.ValueFrom = have.ValueFrom.DeepCopy()
		have.ValueFrom.SecretKeyRef.Optional = nil
	}
	return equality.Semantic.DeepEqual(v.EnvVar, have)
}

// unlike says what is wrong with the variable at index i. It never repeats a value but that of an email or a region: the
// others are secret, or hold what is.
func (v variable) unlike(have corev1.EnvVar, i int, at string) finding {
	f := finding{reason: v.reason, field: at, mend: &mend{index: i, variable: v.EnvVar, replaces: true}}
	switch {
	case have.Value == "" && have.ValueFrom == nil:
		f.message = fmt.Sprintf("%s is empty; it %s", v.Name, v.rule)
		f.mend.replaces = false
	case v.identity && have.ValueFrom != nil:
		f.message = fmt.Sprintf("%s comes from elsewhere (valueFrom), where it cannot be checked; it %s: "+
			"remove the variable, and it is set to that", v.Name, v.rule)
		f.mend = nil
	case v.identity:
		f.message = fmt.Sprintf("%s is %.100q; it %s: remove the variable, and it is set to that, or have the cluster corrected",
			v.Name, have.Value, v.rule)
		f.mend = nil
	case v.Name == cloudsigma.EnvClientSecret && have.Value != "":
		f.reason = reasonClientSecretByValue
		f.message = fmt.Sprintf("%s was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of "+
			"manifests may keep; it %s: have a new client secret made, and put that there", v.Name, v.rule)
	default:
		f.message = fmt.Sprintf("%s is something else; it %s", v.Name, v.rule)
		if ref := secretKey(have); ref != nil {
			f.message = fmt.Sprintf("%s comes from the key %.100q of Secret %.100q; it %s", v.Name, ref.Key, ref.Name, v.rule)
		}
	}
	return f
}

// secretKey is the key of a Secret that a variable comes from, nil if it does not.
func secretKey(have corev1.EnvVar) *corev1.SecretKeySelector {
	if have.ValueFrom == nil {
		return nil
	}
	return have.ValueFrom.SecretKeyRef
}

func (f finding) cause() metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseType(f.reason), Message: f.message, Field: f.field}
}

func joined(findings []finding) string {
	messages := make([]string, 0, len(findings))
	for _, f := range findings {
		messages = append(messages, f.message)
	}
	return strings.Join(messages, "; ")
}
