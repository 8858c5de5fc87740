package cache

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// Get implements client.Reader.
func (c *informerCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(out, c.opts.Scheme)
	if err != nil {
		return err
	}
	i, started, err := c.ready(ctx, gvk, formOf(out), c.opts.ReaderFailOnMissingInformer)
	if err != nil {
		return err
	}
	if !started {
		return &ErrCacheNotStarted{}
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	return i.get(key, out, options)
}

func (i *informer) get(key client.ObjectKey, out client.Object, options *client.GetOptions) error {
	if !i.namespaced {
		key.Namespace = ""
	}
	p := i.partOf(key.Namespace)
	if p == nil {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	obj := i.store.Get(key, options.DisableReadYourWritesConsistency)
	if obj == nil {
		return apierrors.NewNotFound(i.resource.GroupResource(), key.Name)
	}
	from, to := reflect.ValueOf(obj), reflect.ValueOf(out)
	if from.Type() != to.Type() {
		return fmt.Errorf("cache had type %s, but %s was asked for", from.Type(), to.Type())
	}
	if !p.shares(options.UnsafeDisableDeepCopy) {
		from = reflect.ValueOf(obj.DeepCopyObject())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// shares tells whether a read hands out the stored objects themselves.
func (p *part) shares(asked *bool) bool {
	return asked != nil && *asked || p.config.UnsafeDisableDeepCopy != nil && *p.config.UnsafeDisableDeepCopy
}

// List implements client.Reader.
func (c *informerCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(out, c.opts.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	i, started, err := c.ready(ctx, gvk, formOf(out), c.opts.ReaderFailOnMissingInformer)
	if err != nil {
		return err
	}
	if !started {
		return &ErrCacheNotStarted{}
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	return i.list(out, options)
}

func (i *informer) list(out client.ObjectList, options *client.ListOptions) error {
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	if !i.namespaced {
		options.Namespace = ""
	}
	if options.Namespace != "" && i.partOf(options.Namespace) == nil {
		return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", options.Namespace)
	}
	query := store.Query{
		Namespace: options.Namespace,
		Labels:    options.LabelSelector,
		Watched:   options.DisableReadYourWritesConsistency,
	}
	if options.FieldSelector != nil {
		query.Fields = options.FieldSelector.Requirements()
		if !exact(query.Fields) {
			return errors.New("non-exact field matches are not supported by the cache")
		}
	}
	objs, err := i.store.List(query)
	if err != nil {
		return fmt.Errorf("cannot list %s from the cache: %w", i.resource.Resource, err)
	}
	out.SetContinue("")
	if options.Limit > 0 && int64(len(objs)) > options.Limit {
		objs = objs[:options.Limit]
		out.SetContinue("continue-not-supported")
	}
	return i.fill(out, objs, options.UnsafeDisableDeepCopy)
}

func exact(requirements fields.Requirements) bool {
	for _, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return false
		}
	}
	return true
}

// fill puts objects, or copies of them, into a list.
func (i *informer) fill(out client.ObjectList, objs []client.Object, unsafe *bool) error {
	items, err := meta.GetItemsPtr(out)
	if err != nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	made := reflect.MakeSlice(slice.Type(), len(objs), len(objs))
	for n, obj := range objs {
		if !i.partOf(obj.GetNamespace()).shares(unsafe) {
			obj = obj.DeepCopyObject().(client.Object)
		}
		item, value := made.Index(n), reflect.ValueOf(obj)
		if item.Kind() == reflect.Struct {
			value = value.Elem()
		}
		if !value.Type().AssignableTo(item.Type()) {
			return fmt.Errorf("cache had type %s, but %s was asked for", value.Type(), item.Type())
		}
		item.Set(value)
	}
	slice.Set(made)
	return nil
}
