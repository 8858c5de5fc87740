package kinds

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// Computed describes a cluster-scoped kind that is not stored: its objects are computed for each
// request, and can only be read.
type Computed[T Object] struct {
	// Type and List are new, empty values, whose Go types are registered in the scheme.
	Type T
	List runtime.Object

	Plural     string
	ShortNames []string
	// Objects returns a new list of all objects, of the type of List.
	Objects func(ctx context.Context) (list runtime.Object, err error)
	// Find returns the object of that name; false if there is none.
	Find func(ctx context.Context, name string) (T, bool)

	// Columns, Bare and Row are as in Of.
	Columns []metav1.TableColumnDefinition
	Bare    bool
	Row     func(obj T) []any
}

// Register does nothing: computed kinds have neither defaults nor selectable fields of their own.
func (c Computed[T]) Register(*runtime.Scheme) {}

func (c Computed[T]) install(i *installer) error {
	gvk, err := i.kindOf(c.Type)
	if err != nil {
		return err
	}
	storage := computedREST[T]{
		tables[T]{&Of[T]{Type: c.Type, Plural: c.Plural, Cluster: true, Columns: c.Columns, Bare: c.Bare, Row: c.Row}},
		c, schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}, strings.ToLower(gvk.Kind),
	}
	served := &resource.Resource{
		GroupVersion: gvk.GroupVersion(), Kind: gvk, ListKind: gvk.Kind + "List", Name: c.Plural, Singular: storage.singular,
		ShortNames: c.ShortNames, Storage: storage, Warning: i.deprecated(gvk),
	}
	served.Scope, err = i.scope(served.GroupVersionResource(), "", gvk, gvk.GroupVersion(), false, storage, nil)
	i.resources = append(i.resources, served)
	return err
}

// computedREST serves reads of a computed kind.
type computedREST[T Object] struct {
	tables[T]
	kind     Computed[T]
	resource schema.GroupResource // in errors, where kube-apiserver has the singular
	singular string
}

var (
	_ rest.Lister = computedREST[Object]{}
	_ rest.Getter = computedREST[Object]{}
)

func (r computedREST[T]) New() runtime.Object     { return NewOf(r.kind.Type)() }
func (r computedREST[T]) NewList() runtime.Object { return NewOf(r.kind.List)() }
func (r computedREST[T]) Destroy()                {}
func (r computedREST[T]) NamespaceScoped() bool   { return false }
func (r computedREST[T]) GetSingularName() string { return r.singular }

// List returns all objects. Selectors are ignored.
func (r computedREST[T]) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.kind.Objects(ctx)
}

func (r computedREST[T]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if obj, ok := r.kind.Find(ctx, name); ok {
		return obj, nil
	}
	return nil, errors.NewNotFound(r.resource, name)
}
