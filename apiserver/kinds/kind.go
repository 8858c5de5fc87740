// Package kinds turns descriptions of built-in kinds into resources that the server can serve.
//
// A description is data: the Go type in k8s.io/api, the names, and the rules of a kind: defaults,
// validation, fields that the server sets, columns and selectable fields. The descriptions are in
// the packages below this one, one for each API group, and package builtin lists them.
//
// A description is a composite literal of [Of]. The engine makes the registry, the scopes and the subresources of a
// kind. The engine is not generic: erased.go makes a description without the Go type.
//
// Descriptions are Go, and not files of a format of our own: the compiler checks them, and a default or a rule can be
// three lines. CEL would convert an object to unstructured values with every write.
//
// A new kind checks fields with package check. The functions of package fieldrules that return errors are older; they sort the supported
// values of a message, and the functions of check keep the order. The packages columns, allocator, podspec and workload have other rules
// that several kinds share. A folder
// for each API group has a file for each kind. A field gets its default in the function Default of its kind, or, in pod
// specs and templates, in package podspec.
//
// A fork makes the resources of a kind when one of them is looked up. Kinds that share an allocator are one set, which
// is made at once.
package kinds

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Object is a pointer to an API struct, as the Go type of every kind is.
type Object interface {
	metav1.Object
	runtime.Object
}

// Of describes the kind with the Go type T. Only Type, List and Plural must be set.
//
// All functions are safe for concurrent use. Default, Prepare and PrepareStatus modify the object
// that they are passed; the others modify nothing. None retains its arguments.
type Of[T Object] struct {
	// Type and List are new, empty values; their Go types must be registered in the scheme. The
	// group, version and kind come from there.
	Type T
	List runtime.Object

	Plural     string
	Singular   string // by default the kind in lower case
	ShortNames []string
	Categories []string // such as "all"
	Cluster    bool     // not in a namespace

	// Name returns the errors of a name; by default names are DNS subdomains.
	// prefix is true for generateName: its value is only the beginning of a name.
	Name func(name string, prefix bool) []string

	// AnyFinalizers permits finalizers without a domain.
	AnyFinalizers bool

	// Default sets the defaults of kube-apiserver. It must be idempotent; it runs on every decoded
	// request and on every stored object that is read.
	Default func(obj T)
	// Prepare sets the fields that the server owns, after the generic ones (identity, generation,
	// and the status, which only the status subresource changes). old is nil on create.
	Prepare func(ctx context.Context, obj, old T)
	// Validate returns the errors of an object, on create and on update.
	Validate func(obj T) field.ErrorList
	// ValidateCreate returns further errors of a new object, besides the errors of Validate.
	ValidateCreate func(obj T) field.ErrorList
	// ValidateUpdate returns further errors of an update, besides the errors of Validate: immutable fields.
	ValidateUpdate func(obj, old T) field.ErrorList
	// Canonicalize changes a valid object before it is stored.
	Canonicalize func(obj T)
	// Authorize returns the errors for the fields of a new object that the user of the request may not set,
	// and AuthorizeStatus for the fields that an update of the status may not change.
	Authorize       func(ctx context.Context, obj T) field.ErrorList
	AuthorizeStatus func(ctx context.Context, obj, old T) field.ErrorList
	// Warnings are sent to the user who wrote the object; old is nil on create.
	Warnings func(obj, old T) []string
	// StatusWarnings are sent to the user who wrote the status.
	StatusWarnings func(obj T) []string
	// Unenforced is set for a kind that is stored and has no effect yet. It names the missing effect, in
	// the warning for every create and update.
	Unenforced string

	// Status adds the status subresource.
	Status bool
	// StatusOnCreate keeps the status of a new object, which is otherwise dropped.
	StatusOnCreate bool
	// PrepareStatus sets the fields that the server owns on an update of the status, and keeps the
	// metadata that such an update does not change; see [KeepMetadata].
	PrepareStatus func(ctx context.Context, obj, old T)
	// StatusReset are the fields that an update of the status does not change, besides the fields of the
	// desired state, as paths in JSON. They get no manager.
	StatusReset []string
	// ValidateStatus returns the errors of an update of the status.
	ValidateStatus func(obj, old T) field.ErrorList

	// Scale adds the scale subresource.
	Scale *ScaleOf[T]
	// Parts are the subresources, by name, that update a part of the object.
	Parts map[string]Part[T]
	// Reset are the fields besides the status that only the server or a subresource changes, as
	// paths in JSON. They get no manager.
	Reset []string

	// Generation counts the changes of the spec in metadata.generation.
	Generation            bool
	NoUnconditionalUpdate bool // an update must carry a resourceVersion
	CreateOnUpdate        bool // a PUT of an absent object creates it

	// GracePeriod returns the default grace period of a deletion; nil deletes at once.
	GracePeriod func(obj T) time.Duration
	// DeletesOnUpdate reports whether an update completes the deletion, besides the removal of the
	// last finalizer.
	DeletesOnUpdate func(obj, old T) bool
	// ReturnsDeleted makes the response of a deletion the last state of the object instead of a
	// status.
	ReturnsDeleted bool
	// BeforeDelete is called before a deletion. An error refuses the deletion; warnings go through
	// ctx. The name is empty for the deletion of a collection.
	BeforeDelete func(ctx context.Context, name string, options *metav1.DeleteOptions) error
	// Orphans makes Orphan the default propagation policy, instead of Background.
	Orphans bool
	// TTL is how long an object is stored after its last write; zero is for ever.
	TTL time.Duration

	// Terminate is called when the deletion of an object is requested, whether or not it has
	// finalizers. If it returns true, the object becomes terminating, and is removed by the update
	// for which DeletesOnUpdate returns true. It may change the object. Such a kind has no
	// deletecollection.
	Terminate func(obj T) bool
	// Allocator returns the allocator of values that only one object can have, such as cluster IPs. It is
	// called once for each server. The allocator takes part in every write of an object, but not in writes
	// of its subresources.
	Allocator func(s Stored[T]) ResourceAllocator[T]

	// Columns stand between Name and Age in a table; columns with a priority follow Age. Bare omits Name
	// and Age. Row gives the cells of Columns.
	Columns []metav1.TableColumnDefinition
	Bare    bool
	Row     func(obj T) []any

	// Fields are the selectable fields besides metadata.name and metadata.namespace. The keys must
	// be the same for every object.
	Fields func(obj T) fields.Set
	// Indexed are keys of Fields by which the storage finds objects, each the path of a string.
	Indexed []string
	// FieldAliases are further labels by which requests select, each with its key in Fields.
	FieldAliases map[string]string

	// More adds subresources that are not status or scale, such as pods/binding. Each value
	// implements rest interfaces over the stored objects.
	More func(s Stored[T]) map[string]rest.Storage

	// AlsoServed are further group-versions under which the same stored objects are served, such as
	// events.k8s.io/v1 for Event, or autoscaling/v1 for HorizontalPodAutoscaler.
	AlsoServed []Alias[T]
}

// Alias is a further group-version of a kind, with the rules that differ there. Only Type must be
// set. The rules are called with objects of the stored type.
type Alias[T Object] struct {
	// Type is a new, empty value. The scheme must convert between it and the kind's own type.
	Type runtime.Object
	// Default sets the defaults of an object of this Type, before it is converted.
	Default func(obj runtime.Object)
	// Name and Validate, if not nil, replace the rules of the kind.
	Name     func(name string, prefix bool) []string
	Validate func(obj T) field.ErrorList
	// ValidateCreate returns further errors of a new object, besides the errors of Validate.
	ValidateCreate func(obj T) field.ErrorList
	// ValidateUpdate returns further errors of an update, besides the errors of Validate.
	ValidateUpdate func(obj, old T) field.ErrorList
	// Fields are the selectable fields by the names that they have here, each with its key in the
	// kind's own Fields; nil for the same names.
	Fields map[string]string
}

// Part describes a subresource that updates a part of an object, such as pods/resize. It takes and
// returns objects of the kind.
type Part[T Object] struct {
	// Prepare copies the fields that the subresource does not update from old to obj, and sets the fields
	// that the server owns.
	Prepare func(ctx context.Context, obj, old T)
	// Validate returns the errors of an update, besides errors of the metadata.
	Validate func(obj, old T) field.ErrorList
	// Filter selects fields of a request; nil selects all. The subresource updates these fields, and
	// records their managers.
	Filter fieldpath.Filter
}

// ScaleOf maps the fields of a kind to the fields of the scale subresource.
type ScaleOf[T Object] struct {
	Replicas       func(obj T) int32 // the wanted number, from the spec
	SetReplicas    func(obj T, n int32)
	StatusReplicas func(obj T) int32
	Selector       func(obj T) *metav1.LabelSelector
}

// Stored gives the subresources of a kind access to its stored objects. Its writes do not call the
// allocator of the kind.
type Stored[T Object] interface {
	// Get returns an object, which is shared and must not be changed.
	Get(ctx context.Context, name string) (T, error)
	// List calls yield with each object in all namespaces.
	List(ctx context.Context, yield func(obj T)) error
	// Create creates an object, in the name of the server.
	Create(ctx context.Context, obj T) error
	// Update updates the object, and retries on conflict. change may be called several times, each
	// time with a copy of the current object. dryRun is as in the options of the request. The result is shared and must not
	// be changed, except for its own fields.
	Update(ctx context.Context, name string, dryRun []string, change func(obj T) error) (T, error)
	Delete(ctx context.Context, name string, options *metav1.DeleteOptions) error
}

// ResourceAllocator allocates values that only one object can have. It is safe for concurrent use.
type ResourceAllocator[T Object] interface {
	// Allocate allocates the values that the object needs, and sets them in the object, which has not been
	// validated. old is nil on create. A dry run gets values that may be allocated already. If the
	// write then fails, or is a dry run, release is called.
	Allocate(ctx context.Context, obj, old T, dryRun bool) (release func(), err error)
	// Commit releases the values that the written object no longer has.
	Commit(obj T)
	// Release releases all that a deleted object had.
	Release(obj T)
	// Reset forgets all allocations. The next use reads the stored objects again.
	Reset()
}

// Kind is the description of a kind of any Go type; [Of], [Computed], [Action] and [Review] implement
// it.
type Kind interface {
	// Register adds the defaults and selectable fields of the kind to the scheme that has its type.
	Register(*runtime.Scheme)
	install(*installer) error
}
