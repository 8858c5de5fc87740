package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/canonical"
)

// disturbObject changes an object of the operator as somebody else does.
func (w *world) disturbObject(do Fault, name string) error {
	if do == Depose {
		return w.depose()
	}
	ctx := context.Background()
	o, err := w.object(name)
	if err == nil && o == nil {
		err = errNothing
	}
	if err != nil {
		return err
	}
	if do != Edit {
		w.deleted[canonical.WithoutNumber(name)] = true
		if err := w.noteFinished(o); err != nil {
			return err
		}
	}
	switch do {
	case Delete:
		return client.IgnoreNotFound(w.client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case Edit:
		return w.editObject(ctx, o)
	case Recreate:
		return w.recreate(ctx, o)
	}
	return fmt.Errorf("unknown fault %q", do)
}

// noteRelease notes that a write of the operator takes the controller from an object: the operator lets go of it.
func (w *world) noteRelease(c *change) {
	if c.before == nil || c.after == nil {
		return
	}
	before, errBefore := decode(c.before)
	after, errAfter := decode(c.after)
	if errBefore != nil || errAfter != nil {
		return
	}
	o := &unstructured.Unstructured{Object: after}
	w.released[o.GetUID()] = metav1.GetControllerOf(o) == nil &&
		(w.released[o.GetUID()] || metav1.GetControllerOf(&unstructured.Unstructured{Object: before}) != nil)
}

// noteFinished notes an object that somebody else is about to delete, and the objects that it controls, if they have
// finished, or the operator has let go of them.
func (w *world) noteFinished(o *unstructured.Unstructured) error {
	s, err := w.state()
	if err != nil {
		return err
	}
	c := newCanonical(s, w.names)
	for _, other := range s.objects {
		owner := metav1.GetControllerOf(other)
		if (hasFinished(other) || w.released[other.GetUID()]) && (other.GetUID() == o.GetUID() || owner != nil && owner.UID == o.GetUID()) {
			w.finished[c.Key(other)] = w.done
		}
	}
	return nil
}

// object returns the object with a kind and canonical name, or nil.
func (w *world) object(name string) (*unstructured.Unstructured, error) {
	s, err := w.state()
	if err != nil {
		return nil, err
	}
	kind, object, _ := strings.Cut(name, " ")
	c := newCanonical(s, w.names)
	for _, o := range s.All(kind) {
		if o.GetNamespace()+"/"+c.Text(o.GetName()) == object {
			return o, nil
		}
	}
	return nil, nil
}

// editAnnotation is the annotation that [Edit] sets. It belongs to nobody, and outcomes leave it out.
const editAnnotation = "lab.flyball.dev/edited"

// editObject changes an object in a field that is not the operator's. So the operator's copy of the object is stale.
func (w *world) editObject(ctx context.Context, o *unstructured.Unstructured) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, editAnnotation, w.now())
	return client.IgnoreNotFound(w.client.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// recreate replaces an object by another one with the same name. If the object has a controller, the other one has another controller,
// for which a PriorityClass stands that every cluster has.
func (w *world) recreate(ctx context.Context, o *unstructured.Unstructured) error {
	o = o.DeepCopy()
	var owners []metav1.OwnerReference
	if metav1.GetControllerOf(o) != nil {
		class := &schedulingv1.PriorityClass{}
		if err := w.client.Get(ctx, client.ObjectKey{Name: "system-cluster-critical"}, class); err != nil {
			return err
		}
		owners = []metav1.OwnerReference{*metav1.NewControllerRef(class, schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"))}
	}
	if err := w.client.Delete(ctx, o, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return client.IgnoreNotFound(err)
	}
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetOwnerReferences(owners)
	o.SetFinalizers(nil)
	o.SetManagedFields(nil)
	o.SetDeletionTimestamp(nil)
	delete(o.Object, "status")
	err := w.client.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return nil // the old one is not gone yet
	}
	w.foreign[string(o.GetUID())] = true
	return err
}

// errNothing is the error of a fault that has nothing to disturb.
var errNothing = errors.New("there is nothing to disturb")

// depose gives the Leases of the operator to somebody else.
func (w *world) depose() error {
	ctx := context.Background()
	leases, err := w.heldLeases(ctx)
	if err != nil {
		return err
	}
	if len(leases) == 0 {
		return errNothing
	}
	for i := range leases {
		l := &leases[i]
		l.Spec.HolderIdentity = ptr.To("somebody-else")
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		l.Spec.LeaseTransitions = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)
		if err := w.client.Update(ctx, l); err != nil {
			return err
		}
	}
	return nil
}
