// Package v1alpha1 is an older version of the configuration file: config.warrantgate.dev/v1alpha1, GateConfiguration. It is read, and
// converted into the current one, v1beta1, whose package says what is better there.
//
// What did not change is of v1beta1's types. What did is kept here as it was, so that a file with a field of the other version is
// refused in both.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
)

// APIVersion is the apiVersion of the file.
const APIVersion = "config.warrantgate.dev/v1alpha1"

// GateConfiguration is the whole file.
type GateConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	Delegation        v1beta1.Delegation     `json:"delegation,omitzero"`
	Workspace         v1beta1.Workspace      `json:"workspace,omitzero"`
	Repair            Repair                 `json:"repair,omitzero"`
	Machine           v1beta1.Machine        `json:"machine,omitzero"`
	Cluster           v1beta1.Cluster        `json:"cluster,omitzero"`
	ControllerManager ControllerManager      `json:"controllerManager,omitzero"`
	Audit             Audit                  `json:"audit,omitzero"`
	CloudSigma        v1beta1.CloudSigma     `json:"cloudSigma,omitzero"`
	OpenStack         v1beta1.OpenStack      `json:"openStack,omitzero"`
	KeystonePolicy    v1beta1.KeystonePolicy `json:"keystonePolicy,omitzero"`
}

// Repair is that of v1beta1, but for the name of a field.
type Repair struct {
	Mode  v1beta1.Mode    `json:"mode,omitzero"`
	After metav1.Duration `json:"after,omitzero"`
	// Rate is WorkspacesPerSecond of v1beta1.
	Rate int32 `json:"rate,omitzero"`
}

// ControllerManager is that of v1beta1, but for the name of a field.
type ControllerManager struct {
	Mode             v1beta1.Mode                      `json:"mode,omitzero"`
	Selector         *metav1.LabelSelector             `json:"selector,omitzero"`
	Objects          []v1beta1.ControllerManagerObject `json:"objects,omitzero"`
	Container        string                            `json:"container,omitzero"`
	Commands         []string                          `json:"commands,omitzero"`
	ClusterNameLabel string                            `json:"clusterNameLabel,omitzero"`
	// Secret is SecretName of v1beta1.
	Secret string `json:"secret,omitzero"`
}

// Audit is that of v1beta1, but for the name of a field.
type Audit struct {
	Mode     v1beta1.Mode    `json:"mode,omitzero"`
	Interval metav1.Duration `json:"interval,omitzero"`
	// Rate is RequestsPerSecond of v1beta1.
	Rate int32 `json:"rate,omitzero"`
}
