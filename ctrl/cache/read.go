package cache

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/representation"
)

// Get implements client.Reader.
func (c *informerCache) Get(
	ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption,
) error {
	gvk, err := apiutil.GVKForObject(out, c.opts.Scheme)
	if err != nil {
		return err
	}
	i, started, err := c.syncedInformer(ctx, informerKey{gvk, representation.Of(out)}, c.opts.ReaderFailOnMissingInformer)
	if err != nil {
		return err
	}
	if !started {
		return &ErrCacheNotStarted{}
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	return i.get(ctx, key, out, options)
}

// get reads one object into out.
func (i *informer) get(ctx context.Context, key client.ObjectKey, out client.Object, options *client.GetOptions) error {
	if !i.namespaced {
		key.Namespace = ""
	}
	p := i.partitionFor(key.Namespace)
	if p == nil {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	if !options.DisableReadYourWritesConsistency {
		if err := i.revalidate(ctx, "get", key.Namespace, key.Name); err != nil {
			return err
		}
	}
	obj, ok := i.store.Get(key, options.DisableReadYourWritesConsistency)
	if !ok {
		return apierrors.NewNotFound(i.resource.GroupResource(), key.Name)
	}
	into := reflect.ValueOf(out).Elem()
	into.SetZero()
	return i.assign(obj, into, p.shares(options.UnsafeDisableDeepCopy))
}

// assign stores an object, or a copy of it, in a zero struct or in a variable of a pointer type or an
// interface type. Unlike the typed objects of events, typed objects of reads have their kind set,
// unless they are shared.
func (i *informer) assign(obj store.Object, into reflect.Value, shared bool) error {
	if into.Kind() == reflect.Struct {
		if !shared {
			if !obj.CopyInto(into) {
				return errTypeMismatch(obj, into)
			}
		} else {
			value := reflect.ValueOf(obj.Shared()).Elem()
			if !value.Type().AssignableTo(into.Type()) {
				return errTypeMismatch(obj, into)
			}
			into.Set(value)
		}
		if own, ok := into.Addr().Interface().(client.Object); ok {
			i.setKind(own)
		}
		return nil
	}
	var value client.Object
	if shared {
		value = obj.Shared()
	} else {
		value = obj.Copy()
		i.setKind(value)
	}
	if !reflect.TypeOf(value).AssignableTo(into.Type()) {
		return errTypeMismatch(obj, into)
	}
	into.Set(reflect.ValueOf(value))
	return nil
}

// setKind sets the kind of a typed object that is not shared. Objects of other representations have
// it.
func (i *informer) setKind(obj client.Object) {
	if i.representation != representation.Typed {
		return
	}
	switch kind := obj.GetObjectKind().(type) {
	case *metav1.TypeMeta:
		*kind = i.typeMeta
	default:
		kind.SetGroupVersionKind(i.gvk)
	}
}

// errTypeMismatch is the error of a read into a type that is not the cached one.
func errTypeMismatch(obj store.Object, into reflect.Value) error {
	requested := into.Type()
	if requested.Kind() == reflect.Struct { // that the caller's pointer refers to
		requested = reflect.PointerTo(requested)
	}
	return fmt.Errorf("cache had type %T, but %s was asked for", obj.Copy(), requested)
}

// shares reports whether a read returns the stored objects themselves.
func (p *partition) shares(requested *bool) bool {
	return requested != nil && *requested || p.config.UnsafeDisableDeepCopy != nil && *p.config.UnsafeDisableDeepCopy
}

// List implements client.Reader.
func (c *informerCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(out, c.opts.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	i, started, err := c.syncedInformer(ctx, informerKey{gvk, representation.Of(out)}, c.opts.ReaderFailOnMissingInformer)
	if err != nil {
		return err
	}
	if !started {
		return &ErrCacheNotStarted{}
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	return i.list(ctx, out, options)
}

// list reads the objects that match the options into out.
func (i *informer) list(ctx context.Context, out client.ObjectList, options *client.ListOptions) error {
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	if !i.namespaced {
		options.Namespace = ""
	}
	if options.Namespace != "" && i.partitionFor(options.Namespace) == nil {
		return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", options.Namespace)
	}
	query := store.Query{
		Namespace: options.Namespace,
		Labels:    options.LabelSelector,
		Watched:   options.DisableReadYourWritesConsistency,
	}
	if options.FieldSelector != nil {
		query.Fields = options.FieldSelector.Requirements()
		if !onlyEquality(query.Fields) {
			return errors.New("non-exact field matches are not supported by the cache")
		}
	}
	if !query.Watched {
		if err := i.revalidate(ctx, "list", query.Namespace, ""); err != nil {
			return err
		}
	}
	objs, err := i.store.List(query)
	if err != nil {
		return fmt.Errorf("cannot list %s from the cache: %w", i.resource.Resource, err)
	}
	if options.Limit > 0 && int64(len(objs)) > options.Limit {
		objs = objs[:options.Limit]
	}
	// Always set, as in controller-runtime, so that a caller that pages through lists fails after the
	// first page, and not only when there are many objects.
	out.SetContinue("continue-not-supported")
	return i.setItems(out, objs, options.UnsafeDisableDeepCopy)
}

// onlyEquality reports whether all requirements are for equality.
func onlyEquality(requirements fields.Requirements) bool {
	for _, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return false
		}
	}
	return true
}

// setItems stores objects, or copies of them, in a list.
func (i *informer) setItems(out client.ObjectList, objs []store.Object, unsafe *bool) error {
	items, err := meta.GetItemsPtr(out)
	if err != nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	elements := reflect.MakeSlice(slice.Type(), len(objs), len(objs))
	err = inParallel(len(objs), func(from, to int) error {
		for n := from; n < to; n++ {
			if err := i.assign(objs[n], elements.Index(n), i.partitionFor(objs[n].Namespace()).shares(unsafe)); err != nil {
				return err
			}
		}
		return nil
	})
	slice.Set(elements)
	return err
}

const (
	// minPerWorker is the minimum number of objects per goroutine.
	minPerWorker = 16
	// chunkSize is the number of objects that a goroutine processes at a time.
	chunkSize = 4
)

// inParallel calls do for chunks of the range [0, n). For a large n it uses several goroutines. Each
// goroutine takes the next chunk until there are none left.
func inParallel(n int, do func(from, to int) error) error {
	workers := min(runtime.GOMAXPROCS(0), n/minPerWorker) - 1
	if workers < 1 {
		return do(0, n)
	}
	var next atomic.Int64
	work := func() error {
		for {
			from := int(next.Add(chunkSize)) - chunkSize
			if from >= n {
				return nil
			}
			if err := do(from, min(from+chunkSize, n)); err != nil {
				return err
			}
		}
	}
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() { errs[w] = work() })
	}
	err := work()
	wait.Wait()
	return errors.Join(append(errs, err)...)
}
