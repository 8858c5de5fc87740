package client

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/cache/cacheapi"
)

// Object is a Kubernetes object: it has metadata and can be encoded and deep-copied. Every struct
// that embeds TypeMeta and ObjectMeta and has a generated DeepCopyObject is one.
type Object = cacheapi.Object

// ObjectList is a list of Kubernetes objects: what embeds TypeMeta and ListMeta,
// has Items, and can be deep-copied.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// ObjectKey identifies an object of a kind. Cluster-scoped objects have no namespace.
type ObjectKey = types.NamespacedName

// ObjectKeyFromObject returns the key of obj.
func ObjectKeyFromObject(obj Object) ObjectKey {
	return ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Patch computes the body of a patch request.
type Patch interface {
	// Type is the patch's format.
	Type() types.PatchType
	// Data returns the body of a patch with the desired outcome obj.
	Data(obj Object) ([]byte, error)
}

// Reader reads objects.
type Reader interface {
	// Get reads the object with the given key into obj, which must be a pointer
	// to a struct. Its former content is lost.
	Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error

	// List reads the objects that match the options into list. Its former items
	// are lost.
	List(ctx context.Context, list ObjectList, opts ...ListOption) error
}

// Writer writes objects. Where the server responds with the object, the response overwrites the obj
// that was passed; it must be a pointer to a struct, and not an object that a cache shares.
type Writer interface {
	// Apply sends an apply configuration (server-side apply). The field owner is
	// required.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error

	// Create creates obj. With GenerateName instead of a name, the server
	// chooses the name.
	Create(ctx context.Context, obj Object, opts ...CreateOption) error

	// Delete deletes the object that has obj's key. obj itself stays as it is.
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error

	// Update replaces the object. If obj has a resource version, the update
	// fails with a conflict unless it is the current one.
	Update(ctx context.Context, obj Object, opts ...UpdateOption) error

	// Patch changes the object by a patch.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error

	// DeleteAllOf deletes all objects of obj's kind that match the options.
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
}

// StatusClient gives access to the status subresource.
type StatusClient interface {
	// Status is SubResource("status"), for writing.
	Status() SubResourceWriter
}

// SubResourceClientConstructor gives access to any subresource.
type SubResourceClientConstructor interface {
	// SubResource returns a client for the named subresource. A subresource with
	// the parent's own type as its body ("status", "approval", "ephemeralcontainers")
	// needs only the object; a subresource with a type of its own takes a body as well:
	//
	//	c.SubResource("token").Create(ctx, serviceAccount, &authenticationv1.TokenRequest{})
	//	c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
	//	c.SubResource("scale").Get(ctx, deployment, scale)
	//	c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
	SubResource(subResource string) SubResourceClient
}

// StatusWriter is the older name of SubResourceWriter.
type StatusWriter = SubResourceWriter

// SubResourceReader reads subresources.
type SubResourceReader interface {
	// Get reads the subresource of obj into subResource.
	Get(ctx context.Context, obj Object, subResource Object, opts ...SubResourceGetOption) error
}

// SubResourceWriter writes subresources. As with Writer, the response overwrites the object that
// was sent.
type SubResourceWriter interface {
	// Create posts subResource to the subresource of obj.
	Create(ctx context.Context, obj Object, subResource Object, opts ...SubResourceCreateOption) error

	// Update replaces the subresource of obj with obj's own content, or with
	// the body that WithSubResourceBody gives.
	Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error

	// Patch patches the subresource of obj. The patch is computed from obj, or
	// from the body that WithSubResourceBody gives.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error

	// Apply sends an apply configuration to the subresource.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error
}

// SubResourceClient reads and writes subresources.
type SubResourceClient interface {
	SubResourceReader
	SubResourceWriter
}

// Client reads and writes objects. It is safe for concurrent use.
type Client interface {
	Reader
	Writer
	StatusClient
	SubResourceClientConstructor

	// Scheme returns the client's scheme, which maps Go types to kinds.
	Scheme() *runtime.Scheme
	// RESTMapper returns the client's mapper of kinds to resources.
	RESTMapper() meta.RESTMapper
	// GroupVersionKindFor returns the kind of obj: of a typed object that in the scheme, of others
	// the one that is set in them.
	GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error)
	// IsObjectNamespaced reports whether obj's kind is namespaced.
	IsObjectNamespaced(obj runtime.Object) (bool, error)
}

// WithWatch is a Client that can also watch. It is meant for tools and tests;
// controllers get their events from a cache.
type WithWatch interface {
	Client
	// Watch watches the objects of the list's kind that match the options.
	// The objects of the events have the representation of the list: typed, unstructured or
	// metadata-only. The caller must Stop the watch.
	Watch(ctx context.Context, obj ObjectList, opts ...ListOption) (watch.Interface, error)
}

// IndexerFunc returns the values by which an object is indexed.
type IndexerFunc = cacheapi.IndexerFunc

// FieldIndexer adds indexes to the objects of a cache.
type FieldIndexer = cacheapi.FieldIndexer

// IgnoreNotFound returns nil for a NotFound error, and otherwise err.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an AlreadyExists error, and otherwise err.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
