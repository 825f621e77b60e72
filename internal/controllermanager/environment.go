package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

// Reasons of problems with a variable or a flag.
const (
	reasonNotEnabled      = "ImpersonationNotEnabled"
	reasonSecretReference = "SecretReferenceMismatch"
	reasonUserEmail       = "UserEmailMismatch"
	reasonRegion          = "RegionMismatch"
	// reasonUnchecked: the value may come from a source that is not checked.
	reasonUnchecked = "EnvironmentUnchecked"

	// ReasonClientSecretByValue: the request contains the client secret in plain text.
	ReasonClientSecretByValue = "ClientSecretByValue"
)

// Keys of the Secret.
const (
	keyOAuthURL     = "oauth-url"
	keyClientID     = "client-id"
	keyClientSecret = "client-secret"
)

// variable is a required variable.
type variable struct {
	corev1.EnvVar
	// reason is the reason of a problem, and rule describes the required value.
	reason, rule string
	// identity is true if another value means another user or region. The gate denies such a value, and does not replace it.
	identity bool
}

// wanted returns the required environment of a controller manager, in the order of addition.
func wanted(secret string, identity Identity) []variable {
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
		fromSecret(cloudsigma.EnvOAuthURL, keyOAuthURL),
		fromSecret(cloudsigma.EnvClientID, keyClientID),
		fromSecret(cloudsigma.EnvClientSecret, keyClientSecret),
		{
			EnvVar: corev1.EnvVar{Name: cloudsigma.EnvUserEmail, Value: literal(identity.Account.User)}, reason: reasonUserEmail, identity: true,
			rule: fmt.Sprintf("has to be %q, the user of CloudSigmaCluster %q", literal(identity.Account.User), identity.Cluster),
		},
		{
			EnvVar: corev1.EnvVar{Name: cloudsigma.EnvRegion, Value: literal(identity.Account.Region)}, reason: reasonRegion, identity: true,
			rule: fmt.Sprintf("has to be %q, the region of CloudSigmaCluster %q", literal(identity.Account.Region), identity.Cluster),
		},
	}
}

// literal escapes dollars, so that the kubelet does not expand references such as "$(NAME)" in the value. Otherwise the author of a
// cluster could make the client secret part of an email. Two dollars mean one
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables).
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// ActsAs finds variables that contradict the identity.
func (p Pod) ActsAs(identity Identity) []Problem {
	container, at := p.manager(), p.managerField().Child("env")
	off := []corev1.EnvVar{{Name: cloudsigma.EnvLegacyEnabled, Value: "false"}, {Name: cloudsigma.EnvUsername}, {Name: cloudsigma.EnvPassword}}
	if !p.AllowCSIToken {
		off = append(off, corev1.EnvVar{Name: cloudsigma.EnvCSITokenEnabled, Value: "false"})
	}
	return append(compare(container.Env, wanted(p.Secret, identity), at), unset(container, off, at)...)
}

// unset finds variables that have to be off and that envFrom could set, now or after a change of its Secret or ConfigMap. A variable in
// env takes precedence, even if it is empty.
func unset(container corev1.Container, off []corev1.EnvVar, at *field.Path) []Problem {
	var problems []Problem
	for _, variable := range off {
		canBeSet := slices.ContainsFunc(container.EnvFrom, func(source corev1.EnvFromSource) bool {
			return strings.HasPrefix(variable.Name, source.Prefix) && variable.Name != source.Prefix
		})
		isSet := slices.ContainsFunc(container.Env, func(have corev1.EnvVar) bool { return have.Name == variable.Name })
		if canBeSet && !isSet { // a set variable has been checked
			problems = append(problems, Problem{
				Reason: reasonUnchecked, Field: at.String(), Fix: &Fix{Index: -1, Variable: variable},
				Message: fmt.Sprintf("%s is missing; it has to be %q, or envFrom could set it to something else", variable.Name, variable.Value),
			})
		}
	}
	return problems
}

// compare finds problems in an environment. If a variable occurs twice, each occurrence must be valid, because the container
// runtime chooses one.
func compare(env []corev1.EnvVar, variables []variable, at *field.Path) []Problem {
	var problems []Problem
	for _, want := range variables {
		missing := true
		for i, have := range env {
			if have.Name != want.Name {
				continue
			}
			missing = false
			if !want.metBy(have) {
				problems = append(problems, want.unlike(have, i, at.Index(i).String()))
			}
		}
		if missing {
			problems = append(problems, Problem{
				Reason: want.reason, Field: at.String(), Message: fmt.Sprintf("%s is missing; it %s", want.Name, want.rule),
				Fix: &Fix{Index: -1, Variable: want.EnvVar},
			})
		}
	}
	return problems
}

// metBy reports whether a variable has the required meaning.
func (v variable) metBy(have corev1.EnvVar) bool {
	if v.Name == cloudsigma.EnvUserEmail { // case-insensitive, as in CloudSigma; the user of the cluster is in lower case
		have.Value = ownership.LowerEmail(have.Value)
	}
	if ref := secretKey(have); ref != nil && ref.Optional != nil && !*ref.Optional {
		have.ValueFrom = have.ValueFrom.DeepCopy()
		have.ValueFrom.SecretKeyRef.Optional = nil
	}
	return equality.Semantic.DeepEqual(v.EnvVar, have)
}

// unlike describes the problem of the variable at index i. It contains only values of an email or a region, because the others are
// secret or may contain secrets.
func (v variable) unlike(have corev1.EnvVar, i int, at string) Problem {
	f := Problem{Reason: v.reason, Field: at, Fix: &Fix{Index: i, Variable: v.EnvVar, Replaces: true}}
	switch {
	case have.Value == "" && have.ValueFrom == nil:
		f.Message = fmt.Sprintf("%s is empty; it %s", v.Name, v.rule)
		f.Fix.Replaces = false
	case v.identity && have.ValueFrom != nil:
		f.Message = fmt.Sprintf("%s comes from another source (valueFrom), which cannot be checked; it %s: "+
			"remove the variable, and warrantgate sets it", v.Name, v.rule)
		f.Fix = nil
	case v.identity:
		f.Message = fmt.Sprintf("%s is %.100q; it %s: remove the variable, and warrantgate sets it, or correct the cluster",
			v.Name, have.Value, v.rule)
		f.Fix = nil
	case v.Name == cloudsigma.EnvClientSecret && have.Value != "":
		f.Reason = ReasonClientSecretByValue
		f.Message = fmt.Sprintf("%s was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of "+
			"manifests may keep; it %s: create a new client secret, and store it there", v.Name, v.rule)
	default:
		f.Message = fmt.Sprintf("%s has another value; it %s", v.Name, v.rule)
		if ref := secretKey(have); ref != nil {
			f.Message = fmt.Sprintf("%s comes from the key %.100q of Secret %.100q; it %s", v.Name, ref.Key, ref.Name, v.rule)
		}
	}
	return f
}

// secretKey returns the Secret key that a variable refers to, or nil.
func secretKey(have corev1.EnvVar) *corev1.SecretKeySelector {
	if have.ValueFrom == nil {
		return nil
	}
	return have.ValueFrom.SecretKeyRef
}
