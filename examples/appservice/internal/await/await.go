// Package await waits for objects to be as one wants them, by watching them.
package await

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
)

// Until lists the objects that list and opts speak of and follows them until they are as wanted. What
// wanted last said is part of the error if ctx ends before that; "" means that they are.
func Until[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, wanted func(objects []T) string, opts ...client.ListOption) error {
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
	missing := wanted(values(objects))
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
				return fmt.Errorf("the watch has ended while %s", missing)
			}
			object, ok := event.Object.(T)
			switch {
			case event.Type == watch.Deleted && ok:
				delete(objects, object.GetUID())
			case ok:
				objects[object.GetUID()] = object
			default:
				return fmt.Errorf("the watch says %v while %s", event.Object, missing)
			}
			if missing = wanted(values(objects)); missing == "" {
				return nil
			}
		}
	}
}

func values[T any](m map[types.UID]T) []T {
	list := make([]T, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	return list
}
