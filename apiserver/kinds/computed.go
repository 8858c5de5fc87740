package kinds

import (
	"context"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// Computed describes a kind that is not stored: its objects are computed for each request, and can only be read.
type Computed[T Object] struct {
	// Type and List are new, empty values. Their Go types are registered in the scheme.
	Type T
	List runtime.Object

	Plural     string
	ShortNames []string
	// Namespaced says that the objects belong to namespaces. The context of a request has the namespace.
	Namespaced bool
	// WithoutSingular says that the kind has no singular name. Otherwise that is the kind in lower case.
	WithoutSingular bool
	// Objects returns a new list of all objects, of the type of List. It may ignore the options.
	Objects func(ctx context.Context, o *metainternalversion.ListOptions) (list runtime.Object, err error)
	// Find returns the object of that name, or an error for which errors.IsNotFound is true.
	Find func(ctx context.Context, name string) (T, error)

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
	k := &Of[T]{Type: c.Type, List: c.List, Plural: c.Plural, Cluster: !c.Namespaced, Columns: c.Columns, Bare: c.Bare, Row: c.Row}
	storage := computedREST{tables: tables{k.erased()}, objects: c.Objects,
		find: func(ctx context.Context, name string) (runtime.Object, error) { return c.Find(ctx, name) }}
	if !c.WithoutSingular {
		storage.singular = strings.ToLower(gvk.Kind)
	}
	served := &resource.Resource{
		GroupVersion: gvk.GroupVersion(), Kind: gvk, ListKind: gvk.Kind + "List", Name: c.Plural, Singular: storage.singular,
		ShortNames: c.ShortNames, Namespaced: c.Namespaced, Storage: storage, Warning: i.deprecated(gvk),
	}
	served.Scope, err = i.scope(served.GroupVersionResource(), "", gvk, gvk.GroupVersion(), c.Namespaced, storage, nil)
	i.resources = append(i.resources, served)
	return err
}

// computedREST serves reads of a computed kind.
type computedREST struct {
	tables
	objects  func(ctx context.Context, o *metainternalversion.ListOptions) (list runtime.Object, err error)
	find     func(ctx context.Context, name string) (runtime.Object, error)
	singular string
}

var (
	_ rest.Lister = computedREST{}
	_ rest.Getter = computedREST{}
)

func (r computedREST) New() runtime.Object     { return NewOf(r.kind.Type)() }
func (r computedREST) NewList() runtime.Object { return NewOf(r.kind.List)() }
func (r computedREST) Destroy()                {}
func (r computedREST) NamespaceScoped() bool   { return !r.kind.Cluster }
func (r computedREST) GetSingularName() string { return r.singular }

func (r computedREST) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.objects(ctx, o)
}

func (r computedREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return obj, nil
}
