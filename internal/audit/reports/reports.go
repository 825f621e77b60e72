// Package reports writes the results of the audit into one report for each namespace, in the format of OpenReports: for Policy Reporter and
// other programs that show such reports.
package reports

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/install"
)

const (
	// Name is the name of each report. Serve has no permission for other reports.
	Name = "warrantgate"
	// source is the program that results are from, and the field manager of the reports.
	source = "warrantgate"
	// requestTimeout limits one request.
	requestTimeout = 10 * time.Second
	// tooLarge is the error of etcd for an object that exceeds its limit.
	tooLarge = "request is too large"
	// maxNamed limits the namespaces that an error names.
	maxNamed = 20
	// pageSize is the number of objects that a list reads at once: a tenant can write 256 KiB of annotations into its report.
	pageSize = 50
)

// kinds are the kinds of reports. Those of a namespace have the first kind that the API server has. Both have the same fields, except that a
// PolicyReport has its source only in the results.
var kinds = []schema.GroupVersionResource{openreports.SchemeGroupVersion.WithResource("reports"),
	{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}}

var kindNames = map[string]string{"reports": "Report", "policyreports": "PolicyReport"}

// Rule returns the permission to write reports, or only to find and delete them.
func Rule(write bool) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{ResourceNames: []string{Name}, Verbs: []string{"delete", "list"}}
	if write {
		rule.Verbs = []string{"create", "delete", "get", "list", "patch"}
	}
	for _, kind := range kinds {
		rule.APIGroups, rule.Resources = append(rule.APIGroups, kind.Group), append(rule.Resources, kind.Resource)
	}
	return rule
}

// Writer writes reports. It is safe for concurrent use.
type Writer struct {
	objects  dynamic.Interface
	raw      rest.Interface
	metadata metadata.Interface
	now      func() time.Time

	mu sync.Mutex
	// kind is the kind of the reports, zero if the API server has none.
	kind schema.GroupVersionResource
	// logged is true after the message that there is no kind.
	logged bool
	// written are the reports that need no write as long as they have this version.
	written map[string]written
	// unanswered is how often in a row a request for the report of a namespace got no answer. A tenant can cause it, for example with thousands of
	// quotas, so these reports are written after those of others.
	unanswered map[string]int
}

// written is a report as the API server stores it.
type written struct {
	version string
	content [sha256.Size]byte
}

// NewWriter returns a Writer for the API server of config.
func NewWriter(config *rest.Config, now func() time.Time) (*Writer, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, requestTimeout // requests are sent one after the other
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for reports: %w", err)
	}
	metadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for reports: %w", err)
	}
	discovery, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for reports: %w", err)
	}
	return &Writer{objects: objects, raw: discovery.RESTClient(), metadata: metadata, now: now,
		written: map[string]written{}, unanswered: map[string]int{}}, nil
}

// Replace writes the results of all namespaces, and deletes the reports of other namespaces. It writes only reports that differ. If the API
// server has no kind of reports, it writes nothing, and that is no error.
func (w *Writer) Replace(ctx context.Context, all map[string][]openreports.ReportResult) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kind = schema.GroupVersionResource{}
	for _, kind := range kinds {
		stored, err := w.list(ctx, kind)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			count(failed)
			return err
		case w.kind.Empty():
			w.kind = kind
			if err := w.replace(ctx, stored, all); err != nil {
				return err
			}
		default: // before the first kind was installed
			if err := w.remove(ctx, kind, slices.Collect(maps.Values(stored))); err != nil {
				return err
			}
		}
	}
	if w.kind.Empty() {
		count(unsupported)
		if !w.logged {
			logf.FromContext(ctx).Info("audit.reports has no effect, because the API server has no reports of openreports.io/v1alpha1 or wgpolicyk8s.io/v1alpha2")
		}
	}
	w.logged = w.kind.Empty()
	return nil
}

func (w *Writer) replace(ctx context.Context, stored map[string]*metav1.PartialObjectMetadata, all map[string][]openreports.ReportResult) error {
	maps.DeleteFunc(w.written, func(namespace string, before written) bool {
		object := stored[namespace]
		return object == nil || object.ResourceVersion != before.version || !install.IsOurs(object)
	})
	err := w.write(ctx, all)
	maps.DeleteFunc(stored, func(namespace string, _ *metav1.PartialObjectMetadata) bool { return len(all[namespace]) > 0 })
	return errors.Join(err, w.remove(ctx, w.kind, slices.Collect(maps.Values(stored))))
}

// Update writes the results of some namespaces between two calls of Replace. A report without results is deleted.
func (w *Writer) Update(ctx context.Context, changed map[string][]openreports.ReportResult) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kind.Empty() {
		return nil
	}
	return w.write(ctx, changed)
}

// Remove deletes all reports.
func (w *Writer) Remove(ctx context.Context) error {
	for _, kind := range kinds {
		stored, err := w.list(ctx, kind)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = w.remove(ctx, kind, slices.Collect(maps.Values(stored)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the reports of the kind by namespace: those with the name of ours, also without the label, which a tenant can remove. The error
// is a NotFound error if the API server does not have the kind.
func (w *Writer) list(ctx context.Context, kind schema.GroupVersionResource) (map[string]*metav1.PartialObjectMetadata, error) {
	stored := map[string]*metav1.PartialObjectMetadata{}
	for options := (metav1.ListOptions{FieldSelector: "metadata.name=" + Name, Limit: pageSize}); ; {
		page, err := w.metadata.Resource(kind).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		for i := range page.Items {
			// Everything else in it may be large.
			object := &page.Items[i]
			stored[object.Namespace] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.Namespace, UID: object.UID, ResourceVersion: object.ResourceVersion, DeletionTimestamp: object.DeletionTimestamp,
			}}
			if install.IsOurs(object) {
				stored[object.Namespace].Labels = install.Labels()
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return stored, nil
		}
	}
}

// write writes the reports of namespaces, and continues after an error.
func (w *Writer) write(ctx context.Context, all map[string][]openreports.ReportResult) error {
	var first error
	var missing []string
	order := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.unanswered[a], w.unanswered[b]), cmp.Compare(a, b))
	})
	for _, namespace := range order {
		err := w.writeOne(ctx, namespace, all[namespace])
		if err == nil || rejected(err) {
			delete(w.unanswered, namespace)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the namespace is deleted, or about to be
		default:
			count(failed)
			if missing = append(missing, namespace); first == nil {
				first = fmt.Errorf("namespace %q: %w", namespace, err)
			}
			if !rejected(err) {
				w.unanswered[namespace]++
				return first // the others would probably fail, too, each after its timeout
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d reports could not be written, of the namespaces %q; the first is that of %w", len(missing), missing[:min(len(missing), maxNamed)], first)
	}
	return nil
}

// rejected reports whether the API server does not accept this report, in which case it may accept others.
func rejected(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) || isTooLarge(err)
}

func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), tooLarge)
}

func (w *Writer) writeOne(ctx context.Context, namespace string, results []openreports.ReportResult) error {
	desired := limited(namespace, results)
	if w.kind.Group == openreports.GroupName {
		desired.Source = source
	}
	content := digest(desired)
	if before, known := w.written[namespace]; known && before.content == content || !known && len(results) == 0 {
		return nil // a report that is not known is deleted by Replace
	}
	stored, large, err := w.read(ctx, namespace)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		delete(w.written, namespace)
		return w.remove(ctx, w.kind, metadataOf(stored))
	}
	before := decode(stored)
	if stored != nil && !large && digest(before) == content && install.IsOurs(stored) && !hasMore(stored) {
		w.written[namespace] = written{stored.GetResourceVersion(), content}
		return nil
	}
	w.date(&desired, before)
	object, err := w.object(desired)
	if err != nil {
		return err
	}
	if large || stored != nil && hasMore(stored) {
		// A server-side apply leaves the fields of others.
		if err := w.remove(ctx, w.kind, metadataOf(stored)); err != nil {
			return err
		}
	}
	applied, err := w.objects.Resource(w.kind).Namespace(namespace).Apply(ctx, Name, object, metav1.ApplyOptions{FieldManager: source, Force: true})
	if apierrors.IsInvalid(err) || isTooLarge(err) {
		// A tenant can make its report so large that no result fits. The next run creates it again.
		return errors.Join(err, w.remove(ctx, w.kind, metadataOf(stored)))
	}
	if err != nil {
		return err
	}
	count(wrote)
	w.written[namespace] = written{applied.GetResourceVersion(), content}
	return nil
}

// read returns the stored report of a namespace, or nil. Of one that is larger than any of ours, it returns only the metadata: decoded, what a tenant
// wrote into it could be fifty times as large.
func (w *Writer) read(ctx context.Context, namespace string) (stored *unstructured.Unstructured, large bool, _ error) {
	content, err := w.raw.Get().AbsPath("apis", w.kind.Group, w.kind.Version, "namespaces", namespace, w.kind.Resource, Name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	stored = &unstructured.Unstructured{}
	if len(content) <= maxStoredBytes {
		err := stored.UnmarshalJSON(content)
		return stored, false, err
	}
	var metadata metav1.PartialObjectMetadata
	if err := json.Unmarshal(content, &metadata); err != nil {
		return nil, false, err
	}
	stored.SetNamespace(metadata.Namespace)
	stored.SetUID(metadata.UID)
	stored.SetDeletionTimestamp(metadata.DeletionTimestamp)
	return stored, true, nil
}

// remove deletes reports, unless they are not ours or are being deleted, and continues after an error.
func (w *Writer) remove(ctx context.Context, kind schema.GroupVersionResource, stored []*metav1.PartialObjectMetadata) error {
	var first error
	for _, object := range stored {
		if !install.IsOurs(object) || object.DeletionTimestamp != nil {
			continue
		}
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}}
		switch err := w.objects.Resource(kind).Namespace(object.Namespace).Delete(ctx, Name, options); {
		case err == nil:
			count(deleted)
		case apierrors.IsNotFound(err):
		default:
			count(failed)
			if first == nil {
				first = fmt.Errorf("delete the report of namespace %q: %w", object.Namespace, err)
			}
		}
	}
	return first
}

// metadataOf returns the metadata of a report for remove, or none if there is no report. Each object with the name is ours while there are results for
// its namespace, also without the label.
func metadataOf(object *unstructured.Unstructured) []*metav1.PartialObjectMetadata {
	if object == nil {
		return nil
	}
	return []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), UID: object.GetUID(), Labels: install.Labels(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}}}
}

// hasMore reports whether a stored report has fields that object does not return, and that a program could understand as ours.
func hasMore(stored *unstructured.Unstructured) bool {
	for field := range stored.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "source", "summary", "results":
		default:
			return true
		}
	}
	return false
}

// object returns a report as it is applied.
func (w *Writer) object(report openreports.Report) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&report)
	if err != nil {
		return nil, err
	}
	if report.Source == "" {
		delete(content, "source")
	}
	delete(content, "metadata")
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(w.kind.GroupVersion().String())
	object.SetKind(kindNames[w.kind.Resource])
	object.SetName(Name)
	object.SetLabels(install.Labels())
	return object, nil
}
