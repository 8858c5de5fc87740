package fake

import (
	"context"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
)

// Delete implements [client.Writer].
func (c *fakeClient) Delete(
	_ context.Context, obj client.Object, opts ...client.DeleteOption,
) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	gvk, err := c.kindOf(obj)
	if err != nil || isDryRun(o.DryRun) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delete(id{gvk, client.ObjectKeyFromObject(obj)}, o)
}

// delete deletes an object, or marks it as deleted if it has finalizers. The lock is held.
func (c *fakeClient) delete(i id, o *client.DeleteOptions) error {
	old, err := c.current(i)
	if err != nil {
		return err
	}
	if p := o.Preconditions; p != nil {
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return i.conflict("the ResourceVersion in the precondition (%s) does not match the "+
				"ResourceVersion in record (%s). The object might have been modified",
				*p.ResourceVersion, old.GetResourceVersion())
		}
		if p.UID != nil && *p.UID != old.GetUID() {
			return i.conflict("the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", *p.UID, old.GetUID())
		}
	}
	if c.collect && ptr.Deref(o.PropagationPolicy, "") == metav1.DeletePropagationOrphan {
		if err := c.orphanDependents(i, old); err != nil {
			return err
		}
	}
	switch {
	case len(old.GetFinalizers()) == 0:
		return c.remove(i, old)
	case old.GetDeletionTimestamp() != nil:
		return nil
	}
	next := copyOf(old)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	next.SetDeletionTimestamp(&now)
	_, err = c.replace(i, old, next, change{deleting: true})
	return err
}

// remove removes an object and deletes its dependents. The lock is held.
func (c *fakeClient) remove(i id, last client.Object) error {
	if err := c.objects.delete(i); err != nil || !c.collect {
		return err
	}
	return c.collectDependents(i, last)
}

// DeleteAllOf implements [client.Writer].
func (c *fakeClient) DeleteAllOf(
	ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption,
) error {
	o := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	gvk, err := c.kindOf(obj)
	if err != nil || isDryRun(o.DryRun) {
		return err
	}
	all, err := c.readAll(gvk, o.Namespace)
	if err != nil {
		return err
	}
	matches, err := c.indexes.selector(gvk, o.FieldSelector, nil)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(stored client.Object) bool {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(stored.GetLabels())) {
			return true
		}
		item := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
		return c.show(copyOf(stored), item, gvk) != nil || !matches(item)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stored := range all {
		err := c.delete(id{gvk, client.ObjectKeyFromObject(stored)}, &o.DeleteOptions)
		if client.IgnoreNotFound(err) != nil { // it may have been deleted meanwhile
			return err
		}
	}
	return nil
}
