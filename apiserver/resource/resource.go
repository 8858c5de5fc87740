// Package resource defines the resources of the API server, and the catalog of the currently served resources.
//
// A [Resource] has names, a scope, a storage and subresources. It is immutable once it is in a [Catalog].
//
// A Catalog changes atomically, and is safe for concurrent use. A reader holds a consistent [Snapshot]; reading takes
// no lock, except for the first use of a [Lazy] resource or of a new snapshot. Discovery, OpenAPI and the endpoints
// read the same snapshot, so a new kind appears everywhere at once. A snapshot sorts its groups at the first use, so
// the custom kinds of a fork can be added one by one. Caches that outlive a resource are keyed by tokens, and drop
// entries when the catalog changes ([Catalog.OnChange]).
//
// The optional interfaces by which the packages of the API server ask each other's values for a method are in
// optional.go, and in optional.go of package store. Each type that implements one says so: var _ store.Copier =
// (*storageCodec)(nil).
package resource

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

	// Storage serves the verbs. The resource has exactly the verbs with a rest interface that Storage implements
	// (rest.Creater, rest.Getter, rest.Lister, rest.Watcher, rest.Updater, rest.Patcher, rest.GracefulDeleter,
	// rest.CollectionDeleter, rest.NamedCreater, rest.Connecter).
	Storage rest.Storage
	// Scope configures the handlers of k8s.io/apiserver for the resource.
	Scope *handlers.RequestScope
	// Verbs, if not nil, lists the only allowed verbs.
	Verbs []string
	// PatchTypes are the accepted content types of a patch.
	PatchTypes []string

	// ManagedFields, if not nil, sets the managed fields of the writes that it supports, instead of Scope.FieldManager.
	ManagedFields managedfields.Updater
	// Normalized, if not nil, reports whether decoding an unstructured object of the resource's kind would leave it
	// unchanged, without pruning, defaulting or coercion.
	Normalized func(*unstructured.Unstructured) bool
	// TypeConverter converts objects to the typed values of structured-merge-diff.
	TypeConverter upstream.TypeConverter

	// Remote is set for a resource of an extension API server. The server proxies its requests: Storage and Scope are
	// nil, and Verbs lists the verbs of the extension API server.
	Remote bool

	// Subresources are the subresources, such as pods/NAME/status.
	Subresources []*Resource

	// OpenAPI has the documents of a custom resource. It is nil for built-in resources, because their Go types describe
	// them.
	OpenAPI OpenAPI
}

// OpenAPI provides the documents of one resource in one version. Each call builds a document, which belongs to the
// caller. A document takes ten times as much memory as its text.
type OpenAPI interface {
	V2() (*spec.Swagger, error)
	V3() (*spec3.OpenAPI, error)
}

// GroupVersionResource returns the resource, or the parent resource of a subresource.
func (r *Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// Subresource returns the named subresource, or nil.
func (r *Resource) Subresource(name string) *Resource {
	for _, s := range r.Subresources {
		if s.Name == name {
			return s
		}
	}
	return nil
}
