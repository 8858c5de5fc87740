// Package kinds describes the built-in kinds, and turns each description into resources that the
// server can serve.
//
// A kind is data: its Go type in k8s.io/api, its names, and the few rules that make it what it is —
// defaults, validation, what the server computes, columns and selectable fields. Everything else is
// the same for all kinds and is written once, in this package.
package kinds

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Object is what every kind's Go type is: a pointer to an API struct.
type Object interface {
	metav1.Object
	runtime.Object
}

// Of describes the kind whose Go type is T. Only Type, List and Plural must be set.
//
// Every function may be called from many goroutines. Default, Prepare and PrepareStatus change the
// object they are given; the others change nothing. None keeps what it is given.
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

	// Name says what is wrong with a name; the default takes DNS subdomains.
	// prefix is true for generateName, whose value is only the beginning of a name.
	Name func(name string, prefix bool) []string

	// Default fills in what the user left out, as it would be read back from kube-apiserver. It must
	// be idempotent; it runs on every decoded request and on every stored object that is read.
	Default func(obj T)
	// Prepare sets what the server decides, after the type-independent part (identity, generation,
	// keeping the status from anyone but the status subresource). old is nil on create.
	Prepare func(ctx context.Context, obj, old T)
	// Validate says what is wrong with an object, on create and on update.
	Validate func(obj T) field.ErrorList
	// ValidateUpdate says what is wrong with the change, beyond Validate: immutable fields.
	ValidateUpdate func(obj, old T) field.ErrorList
	// Warnings are sent to the user who wrote the object; old is nil on create.
	Warnings func(obj, old T) []string
	// Unenforced is set for a kind that is stored and has no effect yet. It says what does not happen, and
	// is part of a warning in the answer to every create and update.
	Unenforced string

	// Status adds the status subresource.
	Status bool
	// PrepareStatus sets what the server decides on a write of the status.
	PrepareStatus func(ctx context.Context, obj, old T)
	// ValidateStatus says what is wrong with a write of the status.
	ValidateStatus func(obj, old T) field.ErrorList

	// Scale adds the scale subresource.
	Scale *ScaleOf[T]

	// Generation counts the changes of the spec in metadata.generation.
	Generation            bool
	NoUnconditionalUpdate bool // an update must carry a resourceVersion
	CreateOnUpdate        bool // a PUT of an absent object creates it

	// GracePeriod is how long an object lives on after its deletion was asked for, unless the
	// request says so itself; nil deletes at once.
	GracePeriod func(obj T) time.Duration
	// DeletesOnUpdate says that an update (beside the removal of the last finalizer) completes the
	// deletion.
	DeletesOnUpdate func(obj, old T) bool
	// ReturnsDeleted answers a deletion with the object as it last was, instead of a status.
	ReturnsDeleted bool
	// BeforeDelete is called before a deletion. An error refuses the deletion; warnings go through ctx. The
	// name is empty for the deletion of a collection.
	BeforeDelete func(ctx context.Context, name string, options *metav1.DeleteOptions) error
	// Orphans makes Orphan the default propagation policy, instead of Background.
	Orphans bool
	// TTL is how long an object is kept after it was written; zero is for ever.
	TTL time.Duration

	// Terminate is called when the deletion of an object is requested, whether or not it has finalizers.
	// If it returns true, the object becomes terminating, and is removed by the update for which
	// DeletesOnUpdate returns true. It may change the object. Such a kind has no deletecollection.
	Terminate func(obj T) bool
	// Allocator returns the allocator of what only one object can have, such as cluster IPs. It is called
	// once for each server; the allocator is used for every write of an object but those of its
	// subresources.
	Allocator func(s Stored[T]) ResourceAllocator[T]

	// Columns are those of a table between "Name" and "Age", but those with a priority stand after the
	// age; Bare leaves out both of these. Row gives the cells of Columns.
	Columns []metav1.TableColumnDefinition
	Bare    bool
	Row     func(obj T) []any

	// Fields are the selectable fields besides metadata.name and metadata.namespace. The keys must
	// be the same for every object.
	Fields func(obj T) fields.Set

	// More adds subresources that are not status or scale, such as pods/binding. Each value
	// implements rest interfaces over the stored objects.
	More func(s Stored[T]) map[string]rest.Storage

	// AlsoServed are further group-versions under which the same stored objects are served, such as
	// events.k8s.io/v1 for Event.
	AlsoServed []Alias[T]
}

// Alias is a further group-version of a kind, with the rules that differ there. Only Type must be set. The
// rules are called with objects of the stored type.
type Alias[T Object] struct {
	// Type is a new, empty value. The scheme must convert between it and the kind's own type.
	Type runtime.Object
	// Name and Validate, if not nil, replace those of the kind.
	Name     func(name string, prefix bool) []string
	Validate func(obj T) field.ErrorList
	// ValidateCreate says what is wrong with a new object, beyond Validate.
	ValidateCreate func(obj T) field.ErrorList
	// ValidateUpdate says what is wrong with a change, beyond Validate.
	ValidateUpdate func(obj, old T) field.ErrorList
	// Fields are the selectable fields by the names that they have here, each with its key in the
	// kind's own Fields; nil for the same names.
	Fields map[string]string
}

// ScaleOf says where a kind keeps what the scale subresource shows.
type ScaleOf[T Object] struct {
	Replicas       func(obj T) int32 // the wanted number, from the spec
	SetReplicas    func(obj T, n int32)
	StatusReplicas func(obj T) int32
	Selector       func(obj T) *metav1.LabelSelector
}

// Stored is the way to the stored objects of one kind, for subresources of its own.
type Stored[T Object] interface {
	// List calls yield with each object in all namespaces.
	List(ctx context.Context, yield func(obj T)) error
	// Update changes the object in one transaction, retrying on conflict. change may be called
	// several times, each time with a copy of the object as it then is. dryRun is as in the options of
	// the request.
	Update(ctx context.Context, name string, dryRun []string, change func(obj T) error) (T, error)
	Delete(ctx context.Context, name string, options *metav1.DeleteOptions) error
}

// ResourceAllocator allocates what only one object can have. It is safe for concurrent use.
type ResourceAllocator[T Object] interface {
	// Allocate allocates what the object needs and sets it in the object, which has not been validated.
	// old is nil on create. If the write then fails, release is called.
	Allocate(ctx context.Context, obj, old T) (release func(), err error)
	// Commit releases what the object, as it was written, no longer has.
	Commit(obj T)
	// Release releases all that a deleted object had.
	Release(obj T)
}

// Kind is a description whose Go type is no longer visible; [Of] and [Review] implement it.
type Kind interface {
	// Register adds the defaults and selectable fields of the kind to the scheme that has its type.
	Register(*runtime.Scheme)
	install(*installer) error
}
