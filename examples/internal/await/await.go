// Package await waits for conditions of objects by watching them.
package await

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// Until lists and watches objects until a condition is true. The kind of list and opts select the
// objects. The condition returns "" if it is true of the objects, and else the missing part, which
// is the error if ctx ends before.
func Until[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList,
	condition func(objects []T) string, opts ...client.ListOption) error {
	if err := c.List(ctx, list, opts...); err != nil {
		return err
	}
	objects := map[types.UID]T{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		objects[o.(T).GetUID()] = o.(T)
		return nil
	})
	if err != nil {
		return err
	}
	missing := condition(values(objects))
	if missing == "" {
		return nil
	}
	from := &client.ListOptions{}
	from.ApplyOptions(opts)
	from.Raw = &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
	w, err := c.Watch(ctx, list, from)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.New(missing)
		case event, ok := <-w.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended: %s", missing)
			}
			object, ok := event.Object.(T)
			switch {
			case event.Type == watch.Deleted && ok:
				delete(objects, object.GetUID())
			case ok:
				objects[object.GetUID()] = object
			default:
				return fmt.Errorf("the watch returned %v: %s", event.Object, missing)
			}
			if missing = condition(values(objects)); missing == "" {
				return nil
			}
		}
	}
}

// Object watches an object, which must exist, until a condition is true of it; see [Until]. The
// object is then as the condition has seen it.
func Object[T client.Object](ctx context.Context, c client.WithWatch, obj T, condition func(T) string) error {
	list, err := listFor(obj, c.Scheme())
	if err != nil {
		return err
	}
	return Until(ctx, c, list, func(all []T) string {
		for _, o := range all {
			if o.GetName() != obj.GetName() {
				continue
			}
			missing := condition(o)
			if missing == "" {
				reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(o).Elem())
			}
			return missing
		}
		return fmt.Sprintf("there is no %T %s", obj, obj.GetName())
	}, client.InNamespace(obj.GetNamespace()))
}

// Gone watches until an object does not exist any more. An object of the same name that was created
// later counts as another one.
func Gone[T client.Object](ctx context.Context, c client.WithWatch, obj T) error {
	list, err := listFor(obj, c.Scheme())
	if err != nil {
		return err
	}
	return Until(ctx, c, list, func(all []T) string {
		for _, o := range all {
			if o.GetName() == obj.GetName() && (obj.GetUID() == "" || o.GetUID() == obj.GetUID()) {
				return fmt.Sprintf("%T %s still exists", obj, obj.GetName())
			}
		}
		return ""
	}, client.InNamespace(obj.GetNamespace()))
}

// listFor returns an empty list of the object's kind.
func listFor(obj client.Object, scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

// values returns the values of a map.
func values[T any](m map[types.UID]T) []T {
	list := make([]T, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	return list
}
