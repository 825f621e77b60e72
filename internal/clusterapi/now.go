package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

const (
	// pageSize and pagesAtOnce limit the number of objects in memory at the same time, because a tenant can make each of them large: more
	// than a MiB, and several times that once it is decoded.
	pageSize, pagesAtOnce = 5, 4
	// turn is how long a list may begin another page before other lists get its room. Pages of small objects take milliseconds. If each of
	// them waited for a page of another tenant's large objects, a list of some dozen machines would exceed the timeout of its webhook.
	turn = 200 * time.Millisecond
	// pageTimeout limits how long a page that a tenant's request needs keeps its room. It is less than half of the time that a decision
	// about a machine may take, so that a decision for another tenant can wait for a page, and read its own. The list then waits for room
	// again, until the deadline of the request: kcp can take longer for the first page of a kind. The audit may take longer.
	pageTimeout = time.Second
	// MaxDependents limits the number of clusters in other namespaces that take their user from one Secret.
	MaxDependents = 100
)

// pages has room for pagesAtOnce pages. All readers share it, because they share the memory of the process. Lists of a tenant with many large
// objects wait for each other, and leave room for the lists of others.
var pages = share.New[share.Tenant](pagesAtOnce)

// IsName reports whether an object can have a name that is in a request. No request may be sent for another one: client-go rejects names that are
// no segment of a path, and a long URL fails, which looks like an outage.
func IsName(name string) bool {
	return name != "" && len(name) <= validation.DNS1123SubdomainMaxLength && len(content.IsPathSegmentName(name)) == 0
}

// Object returns the current object, or nil if the object does not exist or its kind is not installed. The name may come from a request.
func (r *reader) Object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	if !IsName(name) {
		return nil, nil
	}
	object, err := r.get(ctx, resource, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %q: %w", resource.Resource, name, err)
	}
	return object, nil
}

// Dependent is a cluster, or a machine with its own identity, with the account of its provider.
type Dependent struct {
	// Cluster identifies the machines that use the account.
	Cluster Cluster
	// Account is the account of the provider.
	Account ownership.Account
	// Err is not nil if the provider has no account.
	Err *AccountError
}

// AccountOf returns the account of a cluster object's provider. It reads the current state of referenced objects. The error is an
// *AccountError if the object specifies no account.
func (r *reader) AccountOf(ctx context.Context, provider v1beta1.Provider, object *unstructured.Unstructured) (ownership.Account, error) {
	return clusterKinds[provider].account(r, ctx, object)
}

// Holders returns the machines of a cluster that name instances now and use the identity of the cluster.
func (r *reader) Holders(ctx context.Context, cluster Cluster) ([]Machine, error) {
	if len(validation.IsValidLabelValue(cluster.Name)) > 0 {
		return nil, nil // invalid as a label value, so no machine has it
	}
	var found []Machine
	for _, kind := range r.kinds {
		if kind.Provider != cluster.Provider {
			continue
		}
		options := metav1.ListOptions{LabelSelector: ClusterNameLabel + "=" + cluster.Name}
		err := r.each(ctx, kind.Resource(), cluster.Namespace, options, func(object *unstructured.Unstructured) {
			// A machine that cannot be read names no instance.
			if machine, err := kind.Read(object); err == nil && machine.Identity == cluster.Identity && len(machine.IDs()) > 0 {
				found = append(found, machine.small())
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// each calls do for all current objects of a resource in a namespace. There are none if the resource is not installed, or not bound from the
// provider.
func (r *reader) each(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, do func(*unstructured.Unstructured),
) error {
	err := r.list(ctx, resource, namespace, options, do)
	switch {
	case apierrors.IsNotFound(err):
		return r.notInstalled(ctx, resource)
	case err != nil && !isNotBound(err):
		return fmt.Errorf("list %s: %w", resource.GroupResource(), err)
	}
	return nil
}

// list is each with the error of the API server.
func (r *reader) list(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, do func(*unstructured.Unstructured),
) (err error) {
	options.Limit = pageSize
	if r.through != nil { // it must not look up where the objects are while it keeps room
		if _, _, err := r.through(ctx, resource); err != nil {
			return err
		}
	}
	for {
		options.Continue, err = r.pages(ctx, resource, namespace, options, do)
		tooSlow := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if !tooSlow && (err != nil || options.Continue == "") {
			return err
		}
	}
}

// pages calls do for the objects of the pages of one turn, and returns the token for the next page, which is the one that failed if there is an error.
func (r *reader) pages(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, do func(*unstructured.Unstructured),
) (more string, err error) {
	release, err := pages.Wait(ctx, share.FromContext(ctx), 1)
	if err != nil {
		return options.Continue, fmt.Errorf("wait for other lists: %w", err)
	}
	defer release()
	for began := time.Now(); ; {
		page, err := r.page(ctx, resource, namespace, options)
		if err != nil {
			return options.Continue, err
		}
		for i := range page.Items {
			do(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" || time.Since(began) > turn {
			return options.Continue, nil
		}
	}
}

func (r *reader) page(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions,
) (*unstructured.UnstructuredList, error) {
	return send(ctx, r, resource, namespace, func(objects dynamic.ResourceInterface) (*unstructured.UnstructuredList, error) {
		if share.FromContext(ctx) == (share.Tenant{}) {
			return objects.List(ctx, options)
		}
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		return objects.List(ctx, options)
	})
}

// get returns the current object, with the error of the API server.
func (r *reader) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return send(ctx, r, resource, namespace, func(objects dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return objects.Get(ctx, name, metav1.GetOptions{})
	})
}

// send sends a request for objects of a resource in a namespace, or in all if it is "", to the API server that has them.
func send[T any](
	ctx context.Context, r *reader, resource schema.GroupVersionResource, namespace string, request func(dynamic.ResourceInterface) (T, error),
) (answer T, err error) {
	if r.through == nil {
		return request(r.dynamic.Resource(resource).Namespace(namespace))
	}
	for {
		at, forget, err := r.through(ctx, resource)
		if err != nil {
			return answer, err
		}
		answer, err = request(at.Resource(resource).Namespace(namespace))
		if forget == nil || !apierrors.IsForbidden(err) {
			return answer, err
		}
		forget() // they may no longer be bound from there
	}
}

// ErrTooManyDependents means that more than MaxDependents clusters of other namespaces take their user from a Secret.
var ErrTooManyDependents = errors.New("more clusters of other namespaces take their user from the Secret than are checked")

// UserDependents returns the CloudSigmaClusters that take their user from a Secret, with the account for this user. It lists the
// current clusters in the namespace of the Secret. In other namespaces it reads the current state of the last seen clusters. The error may be ErrTooManyDependents.
func (o *Objects) UserDependents(ctx context.Context, namespace, secret, user string) ([]Dependent, error) {
	kind, watched := clusterKinds[v1beta1.ProviderCloudSigma], o.clusters[v1beta1.ProviderCloudSigma]
	if watched == nil {
		return nil, nil
	}
	if err := watched.synced(); err != nil {
		return nil, err
	}
	if o.byAll {
		user = ""
	}
	var found []Dependent
	take := func(cluster *unstructured.Unstructured) {
		region, err := stringAt(cluster, regionPath)
		if of, _ := userSecretOf(cluster); err != nil || !slices.Contains(of, namespace+"/"+secret) {
			return // a cluster that cannot be read has no instances
		}
		found = append(found, Dependent{
			Cluster: Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: cluster.GetNamespace(), Name: cluster.GetName()},
			Account: ownership.Account{Cloud: string(v1beta1.ProviderCloudSigma), User: user, Region: o.regionOr(region)},
		})
	}
	err := o.each(ctx, kind.resource, namespace, metav1.ListOptions{}, take)
	if err != nil {
		return nil, err
	}
	elsewhere := 0
	for _, cluster := range watched.byIndex(indexUserSecret, namespace+"/"+secret) {
		if cluster.GetNamespace() == namespace {
			continue
		}
		if elsewhere++; elsewhere > MaxDependents {
			return nil, ErrTooManyDependents
		}
		now, err := o.get(ctx, kind.resource, cluster.GetNamespace(), cluster.GetName())
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read %s %q: %w", kind.kind, cluster.GetName(), err)
		default:
			take(now)
		}
	}
	return found, nil
}

// CredentialDependents returns the objects that refer to one of the clouds of a Secret now: clusters, and machines with their own
// identity. Such references work only in the namespace of the Secret.
func (o *Objects) CredentialDependents(ctx context.Context, namespace, secret string, clouds []string) ([]Dependent, error) {
	kind, read := clusterKinds[v1beta1.ProviderOpenStack], o.clusters[v1beta1.ProviderOpenStack] != nil
	if !read {
		return nil, nil
	}
	var found []Dependent
	refers := func(ref IdentityRef) bool { return ref.Name == secret && slices.Contains(clouds, ref.CloudName) }
	add := func(cluster Cluster, ref IdentityRef) {
		if account, err := ref.account(namespace, ""); err == nil && refers(ref) { // an object without an account has no identity
			found = append(found, Dependent{Cluster: cluster, Account: account})
		}
	}
	references, err := o.references(ctx, namespace)
	if err != nil {
		return nil, err
	}
	err = o.each(ctx, kind.resource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) {
		ref, err := readIdentityRef(object, identityRefPath)
		if err != nil {
			return
		}
		for _, name := range references.to(object.GetName()) {
			add(Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: namespace, Name: name}, ref)
		}
	})
	seen := map[Cluster]bool{}
	for _, kind := range o.kinds {
		if kind.Provider != v1beta1.ProviderOpenStack || kind.IdentityRefPath == "" || err != nil {
			continue
		}
		err = o.each(ctx, kind.Resource(), namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) {
			machine, err := kind.Read(object)
			if err != nil || machine.Identity == (IdentityRef{}) || seen[machine.Cluster()] || len(machine.IDs()) == 0 {
				return
			}
			seen[machine.Cluster()] = true
			add(machine.Cluster(), machine.Identity)
		})
	}
	return found, err
}

// IdentityField is a field that refers to credentials.
type IdentityField struct {
	Resource schema.GroupVersionResource
	Path     string
}

// Refers reports whether one of these fields, or a machine, in the namespace of a Secret refers to one of its clouds now. Unlike
// CredentialDependents, it counts objects that no provider acts for yet: a cluster object that no Cluster refers to, and a machine without an
// instance.
func (o *Objects) Refers(ctx context.Context, fields []IdentityField, namespace, secret, cloud string) (bool, error) {
	refers := false
	all := sets.New(fields...)
	for _, kind := range o.kinds {
		if kind.Provider == v1beta1.ProviderOpenStack && kind.IdentityRefPath != "" {
			all.Insert(IdentityField{kind.Resource(), kind.IdentityRefPath})
		}
	}
	for field := range all {
		err := o.each(ctx, field.Resource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) {
			ref, err := readIdentityRef(object, field.Path)
			refers = refers || err == nil && ref.Name == secret && ref.CloudName == cloud
		})
		if err != nil || refers {
			return refers, err
		}
	}
	return false, nil
}

// UserDependents returns nothing, because Secrets specify no users in kcp workspaces.
func (*Workspace) UserDependents(context.Context, string, string, string) ([]Dependent, error) {
	return nil, errors.New("no Secret specifies a user in a kcp workspace")
}
