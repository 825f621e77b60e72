package kubetest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// crdFiles are the kinds of Cluster API, of its provider for CloudSigma and of Kube-DC, reduced to the fields that warrantgate
// reads. All other fields are preserved.
//
//go:embed crds/*.yaml
var crdFiles embed.FS

// CRDs returns the CRDs that every server has, or only those with the given names.
func CRDs(kinds ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(crdFiles, "crds/*.yaml")
	if err != nil {
		return nil, err
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		content, err := crdFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		if len(kinds) == 0 || slices.Contains(kinds, crd.Spec.Names.Kind) {
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

// OpenCRD returns the CRD of a namespaced kind that accepts all fields. The version of kind is stored. The others are served, too.
func OpenCRD(kind schema.GroupVersionKind, others ...string) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind.Kind)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind.Kind, ListKind: kind.Kind + "List"},
		},
	}
	for _, version := range append([]string{kind.Version}, others...) {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == kind.Version,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
			},
		})
	}
	return crd
}

// ReportCRD returns the CRD of the reports of openreports.io, from the module with its types.
func ReportCRD(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f={{.Dir}}", "github.com/openreports/reports-api").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module of OpenReports: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "config", "crd", "openreports.io_reports.yaml"))
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.UnmarshalStrict(content, crd)
}

// ApplyCRDs creates or replaces CRDs and waits until all their versions are served.
func (s *Server) ApplyCRDs(ctx context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("apply CRDs: %w", err)
	}
	_, err := envtest.InstallCRDs(s.admin, envtest.CRDInstallOptions{CRDs: crds, MaxTime: remaining(ctx)})
	return err
}
