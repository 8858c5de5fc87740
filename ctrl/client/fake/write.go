package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/ctrl/client"
)

// initialVersion is the resource version of objects that are there from the beginning.
const initialVersion = "999"

const (
	maxNameLength  = 63
	randomLength   = 5
	generateTrials = 7
)

// add adds an initial object, or the items of a list.
func (c *fakeClient) add(obj runtime.Object) error {
	if meta.IsListType(obj) {
		items, err := meta.ExtractList(obj)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := c.add(item); err != nil {
				return err
			}
		}
		return nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return fmt.Errorf("object %s has metadata.deletionTimestamp, but no finalizers", m.GetName())
	}
	if m.GetResourceVersion() == "" && c.versions == nil {
		m.SetResourceVersion(initialVersion)
	} else if m.GetResourceVersion() == "" {
		m.SetResourceVersion(c.firstVersion())
	}
	kinds, err := c.kindsOf(obj)
	if err != nil {
		return err
	}
	if t, ok := c.objects.(*tracked); ok {
		stored, err := c.stored(obj, kinds[0])
		if err != nil {
			return err
		}
		return t.tracker.Add(withoutKind(stored))
	}
	// The field manager would drop fields that it cannot decode.
	if err := managedfields.ValidateManagedFields(m.GetManagedFields()); err != nil {
		return fmt.Errorf("invalid managedFields on %T: %w", obj, err)
	}
	for _, gvk := range kinds {
		stored, err := c.stored(obj, gvk)
		if err != nil {
			return err
		}
		i := id{gvk, client.ObjectKeyFromObject(stored)}
		if err := c.objects.create(i, stored, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// kindsOf returns all kinds of an object, which are several if its Go type is registered with them.
func (c *fakeClient) kindsOf(obj runtime.Object) ([]schema.GroupVersionKind, error) {
	if gvk, err := c.kindOf(obj); err == nil {
		return []schema.GroupVersionKind{gvk}, nil
	}
	kinds, _, err := c.scheme.ObjectKinds(obj)
	return kinds, err
}

// firstVersion returns the resource version of a new object.
func (c *fakeClient) firstVersion() string {
	if c.versions == nil {
		return "1"
	}
	*c.versions++
	return strconv.FormatUint(*c.versions, 10)
}

// nextVersion returns the resource version that follows another one.
func (c *fakeClient) nextVersion(version string) (string, error) {
	if c.versions != nil {
		return c.firstVersion(), nil
	}
	if version == "" {
		return "1", nil
	}
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return "", fmt.Errorf("the resource version %q is not a number: %w", version, err)
	}
	return strconv.FormatUint(n+1, 10), nil
}

// Create implements [client.Writer].
func (c *fakeClient) Create(
	_ context.Context, obj client.Object, opts ...client.CreateOption,
) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	gvk, err := c.kindOf(obj)
	if err != nil || isDryRun(o.DryRun) {
		return err
	}
	next, err := c.stored(obj, gvk)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if next, err = c.create(gvk, next, *o.AsCreateOptions()); err != nil {
		return err
	}
	obj.SetDeletionTimestamp(nil)
	return c.wrote(gvk, obj, next)
}

// create adds an object, which becomes the store's, and returns it. The lock is held.
func (c *fakeClient) create(
	gvk schema.GroupVersionKind, obj client.Object, o metav1.CreateOptions,
) (client.Object, error) {
	prefix := obj.GetGenerateName()
	generate := obj.GetName() == "" && prefix != ""
	if obj.GetName() == "" && !generate {
		return nil, errNameRequired(gvk)
	}
	if obj.GetResourceVersion() != "" {
		return nil, badRequest("resourceVersion can not be set for Create requests")
	}
	obj.SetDeletionTimestamp(nil)
	prefix = prefix[:min(len(prefix), maxNameLength-randomLength)]
	for trial := 1; ; trial++ {
		if generate {
			obj.SetName(prefix + utilrand.String(randomLength))
		}
		i := id{gvk, client.ObjectKeyFromObject(obj)}
		_, err := c.objects.get(i)
		switch {
		case err == nil && generate && trial < generateTrials:
			continue
		case err == nil:
			return nil, apierrors.NewAlreadyExists(i.resource().GroupResource(), i.Name)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
		obj.SetResourceVersion(c.firstVersion())
		if c.fields != nil {
			if obj, err = c.fields.update(managed{gvk: gvk}, nil, obj, o.FieldManager); err != nil {
				return nil, err
			}
		}
		return obj, c.objects.create(i, obj, o)
	}
}

// wrote sets what a write has set in the metadata of the caller's object.
func (c *fakeClient) wrote(gvk schema.GroupVersionKind, obj, stored client.Object) error {
	obj.SetName(stored.GetName())
	obj.SetResourceVersion(stored.GetResourceVersion())
	obj.SetManagedFields(nil)
	if c.managedFields {
		current, err := c.objects.get(id{gvk, client.ObjectKeyFromObject(stored)})
		if err != nil {
			return err
		}
		obj.SetManagedFields(current.GetManagedFields())
	}
	setKind(obj, gvk)
	return nil
}

// Update implements [client.Writer].
func (c *fakeClient) Update(
	_ context.Context, obj client.Object, opts ...client.UpdateOption,
) error {
	return c.update(obj, false, (&client.UpdateOptions{}).ApplyOptions(opts))
}

// update updates an object, or only its status.
func (c *fakeClient) update(obj client.Object, status bool, o *client.UpdateOptions) error {
	gvk, err := c.kindOf(obj)
	if err != nil || isDryRun(o.DryRun) {
		return err
	}
	if obj.GetName() == "" {
		return errNameRequired(gvk)
	}
	next, err := c.stored(obj, gvk)
	if err != nil {
		return err
	}
	next.SetManagedFields(obj.GetManagedFields()) // an empty list, which removes them, is not nil
	c.mu.Lock()
	defer c.mu.Unlock()
	i := id{gvk, client.ObjectKeyFromObject(obj)}
	old, err := c.current(i)
	if apierrors.IsNotFound(err) && !status && allowsCreateOnUpdate(gvk) {
		if next, err = c.create(gvk, next, metav1.CreateOptions{FieldManager: o.FieldManager}); err != nil {
			return err
		}
		return c.wrote(gvk, obj, next)
	}
	if err != nil {
		return err
	}
	stored, err := c.replace(i, old, next, change{status: status, manager: o.FieldManager})
	if err != nil {
		return err
	}
	switch {
	case stored == nil: // deleted
		obj.SetResourceVersion(next.GetResourceVersion())
		obj.SetManagedFields(nil)
		setKind(obj, gvk)
		return nil
	case c.withStatus.Has(gvk):
		if stored, err = c.objects.get(i); err != nil {
			return err
		}
		return c.show(stored, obj, gvk)
	default:
		return c.wrote(gvk, obj, stored)
	}
}

// current returns an object as it would be stored. The lock is held.
func (c *fakeClient) current(i id) (client.Object, error) {
	obj, err := c.objects.get(i)
	if err != nil {
		return nil, err
	}
	if c.fields == nil {
		obj.GetObjectKind().SetGroupVersionKind(i.gvk)
		return c.stored(obj, i.gvk)
	}
	return obj, nil
}

// change describes the replacement of an object by another one.
type change struct {
	status        bool // of the status subresource
	unconditional bool // the resource version may be empty
	deleting      bool // the deletion timestamp may change
	applied       bool // the managed fields are set already
	manager       string
}

// replace replaces old by next, which becomes the store's, and returns the stored object. That is nil
// if the object is deleted, because its last finalizer is gone; next then is its last state. The
// lock is held.
func (c *fakeClient) replace(i id, old, next client.Object, ch change) (client.Object, error) {
	subresource := ""
	switch hasStatus := c.withStatus.Has(i.gvk); {
	case ch.status && !hasStatus:
		return nil, i.notFound()
	case ch.status:
		subresource = "status"
		whole := copyOf(old)
		if err := copyStatus(next, whole); err != nil {
			return nil, err
		}
		whole.SetResourceVersion(next.GetResourceVersion())
		if ch.applied {
			whole.SetManagedFields(next.GetManagedFields())
		}
		next = whole
	case hasStatus:
		if err := copyStatus(old, next); err != nil {
			return nil, err
		}
	}
	if next.GetResourceVersion() == "" && (ch.unconditional || allowsUnconditionalUpdate(i.gvk)) {
		next.SetResourceVersion(old.GetResourceVersion())
	}
	if next.GetResourceVersion() != old.GetResourceVersion() {
		return nil, i.conflict("object was modified")
	}
	if !ch.deleting && !sameDeletion(old, next) {
		return nil, fmt.Errorf("unable to edit %s: metadata.deletionTimestamp is immutable", i.Name)
	}
	version, err := c.nextVersion(old.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	if c.fields == nil && (ch.status || next.GetManagedFields() == nil) {
		next.SetManagedFields(old.GetManagedFields())
	}
	next.SetResourceVersion(version)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		return nil, c.remove(i, next)
	}
	if c.fields != nil && !ch.applied {
		if next, err = c.fields.update(managed{i.gvk, subresource}, old, next, ch.manager); err != nil {
			return nil, err
		}
	}
	if err := c.objects.update(i, next, metav1.UpdateOptions{FieldManager: ch.manager}); err != nil {
		return nil, err
	}
	return next, nil
}

func (i id) conflict(format string, args ...any) error {
	return apierrors.NewConflict(i.resource().GroupResource(), i.Name, fmt.Errorf(format, args...))
}

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// sameDeletion reports whether two objects have the same deletion timestamp, which JSON truncates
// to seconds.
func sameDeletion(a, b metav1.Object) bool {
	x, y := a.GetDeletionTimestamp(), b.GetDeletionTimestamp()
	if x == nil || y == nil {
		return x == y
	}
	return x.Sub(y.Time).Abs() < time.Second
}

func isDryRun(dryRun []string) bool { return slices.Contains(dryRun, metav1.DryRunAll) }

func errNameRequired(gvk schema.GroupVersionKind) error {
	return apierrors.NewInvalid(gvk.GroupKind(), "",
		field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name is required")})
}
