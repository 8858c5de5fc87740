// Package resource defines the resources that the API server serves, and the catalog of those that
// are served now.
//
// A [Resource] is immutable once it is in a [Catalog]. A catalog may be read and replaced from any
// number of goroutines; a reader holds one consistent [Snapshot].
package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/managedfields"
)

// Resource is one resource in one version: its description for discovery, and its storage.
type Resource struct {
	// GroupVersion is where the resource is served: /apis/GROUP/VERSION, or /api/v1.
	GroupVersion schema.GroupVersion
	// Kind is the kind of the objects in requests and responses. Its group and version differ from
	// GroupVersion for subresources such as deployments/scale (autoscaling/v1 Scale).
	Kind schema.GroupVersionKind
	// ListKind is empty for a resource that cannot be listed.
	ListKind string

	Name       string // plural, as in the path; for a subresource its own segment, such as "status"
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool

	// StorageVersionHash identifies the stored form in discovery; empty for subresources.
	StorageVersionHash string
	// Warning is sent with every response when it is not empty, as for deprecated versions.
	Warning string

	// Storage serves the verbs, exactly those whose rest interface it implements
	// (rest.Creater, rest.Getter, rest.Lister, rest.Watcher, rest.Updater, rest.Patcher,
	// rest.GracefulDeleter, rest.CollectionDeleter, rest.NamedCreater, rest.Connecter).
	Storage rest.Storage
	// Scope is the resource's configuration for upstream's handlers.
	Scope *handlers.RequestScope
	// Verbs, if not nil, restricts the verbs to these.
	Verbs []string
	// PatchTypes are the accepted content types of a patch.
	PatchTypes []string

	// ManagedFields, if not nil, sets the managed fields of simple writes in place of
	// Scope.FieldManager.
	ManagedFields managedfields.Updater
	// Normalized, if not nil, reports whether decoding an unstructured object of the resource's kind
	// would leave it as it is: nothing in it would be pruned, defaulted or coerced.
	Normalized func(*unstructured.Unstructured) bool
	// TypeConverter converts objects to the typed values of structured-merge-diff.
	TypeConverter upstream.TypeConverter

	// Remote is set for a resource of an extension API server, which is only described here: requests
	// are proxied, Storage and Scope are nil, and Verbs are those that it serves.
	Remote bool

	// Subresources hang below one object: pods/NAME/status.
	Subresources []*Resource

	// OpenAPI has the documents of a custom resource. It is nil for built-in resources, which are
	// described by their Go types.
	OpenAPI OpenAPI
}

// BeforeUpdater is a [rest.RESTUpdateStrategy] that has a shorter way for usual updates.
type BeforeUpdater interface {
	// BeforeUpdate reports whether it has done what [rest.BeforeUpdate] does, which it does only for an
	// update that is valid for sure. Otherwise that is to be called. obj, which it changes, may share
	// parts with old, which it does not change.
	BeforeUpdate(ctx context.Context, obj, old runtime.Object) bool
}

// OpenAPI provides the documents of one resource in one version. They are built for each call, and
// belong to the caller: as trees they take ten times as much memory as the text.
type OpenAPI interface {
	V2() (*spec.Swagger, error)
	V3() (*spec3.OpenAPI, error)
}

// GroupVersionResource returns the resource, or the parent resource of a subresource.
func (r *Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// Subresource returns the subresource of that name, or nil.
func (r *Resource) Subresource(name string) *Resource {
	for _, s := range r.Subresources {
		if s.Name == name {
			return s
		}
	}
	return nil
}
