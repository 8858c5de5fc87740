package zoo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/lab"
)

// twoOwners has one part for all Widgets, and gives it to the Widget that it has looked at last.
func twoOwners(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shared"}}
	found := part.DeepCopy()
	err := e.Get(ctx, client.ObjectKeyFromObject(part), found)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: rePeriod}, errors.Join(controllerutil.SetOwnerReference(w, part, scheme), e.Create(ctx, part))
	}
	if err == nil && len(found.OwnerReferences) == 0 {
		err = errors.New("the ConfigMap shared belongs to somebody else")
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	before := found.DeepCopy()
	if !e.right {
		found.OwnerReferences = nil
	}
	if err := controllerutil.SetOwnerReference(w, found, scheme); err != nil {
		return ctrl.Result{}, err
	}
	if !equality.Semantic.DeepEqual(before, found) {
		err = e.Update(ctx, found)
	}
	return ctrl.Result{RequeueAfter: rePeriod}, err
}

// elsewhere puts the part of a Widget into another namespace. Owners own nothing there.
func elsewhere(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	part := newPart(w, w.Name)
	if !e.right {
		part.Namespace = metav1.NamespacePublic
	}
	return ctrl.Result{}, ensure(ctx, e, w, part)
}

// misspeltOwner writes the owner of its part by hand, with a kind that does not exist. The garbage collector deletes the
// part all the same when it sees that the owner is deleted, but not a part that is made afterwards, on a stale view.
func misspeltOwner(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	part := newPart(w, w.Name)
	if !e.right {
		part.OwnerReferences[0].Kind = "Widgets"
	}
	return ctrl.Result{}, ensure(ctx, e, w, part)
}

// oldOwner has the owner of its part from a manifest of another cluster, where another kind was served.
func oldOwner(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	owner := w.DeepCopyObject().(*Widget)
	if !e.right {
		owner.UID = "8b3e6f4a-2a53-4c44-9a1c-0d4e6f6d2f11"
	}
	part := newPart(owner, w.Name)
	if !e.right {
		part.OwnerReferences[0].Kind = "WidgetSet"
	}
	return ctrl.Result{RequeueAfter: rePeriod}, ensure(ctx, e, owner, part)
}

// replaced deletes a Widget and at once creates another one with its name.
func replaced(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	remove, create := lab.Remove(w), lab.Create(w)
	return lab.Scenario{Steps: []lab.Step{create, {Name: "replace default/web", Do: func(ctx context.Context, c client.Client) error {
		return errors.Join(remove.Do(ctx, c), create.Do(ctx, c))
	}}}}
}

// inheritedPart takes over the part of a Widget with the same name, with a content that was made for that Widget.
func inheritedPart(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	wanted, found := newPart(w, w.Name), &corev1.ConfigMap{}
	wanted.Data["issued-to"] = string(w.UID)
	err := e.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	owner := metav1.GetControllerOf(found)
	if err == nil && owner != nil && owner.Name == w.Name && owner.UID != w.UID && !e.right {
		found.OwnerReferences = wanted.OwnerReferences
		return ctrl.Result{}, e.Update(ctx, found)
	}
	return ctrl.Result{}, ensure(ctx, e, w, wanted)
}

// unseenDeletion remembers the UID of a Widget by its name, until it sees that the Widget is gone.
func unseenDeletion(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if e.memory[w.Name] == "" || e.right {
		e.memory[w.Name] = string(w.UID)
	}
	owner := w.DeepCopyObject().(*Widget)
	owner.UID = types.UID(e.memory[w.Name])
	return ctrl.Result{}, ensure(ctx, e, owner, newPart(owner, w.Name))
}

// forget forgets a Widget that is gone.
func forget(e *env, name string) error {
	delete(e.memory, name)
	return nil
}

// onlyGrows creates the parts of a Widget, and keeps the ones that the Widget no longer wants.
func onlyGrows(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	wanted := map[string]bool{}
	for i := range w.Spec.Parts {
		name := fmt.Sprintf("%s-%d", w.Name, i)
		wanted[name] = true
		if err := ensurePart(ctx, e, w, name); err != nil {
			return ctrl.Result{}, err
		}
	}
	all := &corev1.ConfigMapList{}
	if err := e.List(ctx, all, client.InNamespace(w.Namespace), client.MatchingLabels{"widget": w.Name}); err != nil {
		return ctrl.Result{}, err
	}
	for i := range all.Items {
		if part := &all.Items[i]; e.right && metav1.IsControlledBy(part, w) && !wanted[part.Name] {
			if err := e.Delete(ctx, part, client.Preconditions{UID: &part.UID}); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// namesakes are Widgets with names that begin alike.
func namesakes(*external) lab.Scenario {
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(newWidget("web", WidgetSpec{Size: 1})),
		lab.Create(newWidget("web-admin", WidgetSpec{Size: 2})),
	}}
}

// broadSelection takes for its own what has a name or label like its own.
func broadSelection(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	all := &corev1.ConfigMapList{}
	if err := e.List(ctx, all, client.InNamespace(w.Namespace), client.HasLabels{"widget"}); err != nil {
		return ctrl.Result{}, err
	}
	for i := range all.Items {
		part := &all.Items[i]
		mine := strings.HasPrefix(part.Name, w.Name)
		if e.right {
			mine = metav1.IsControlledBy(part, w)
		}
		if mine && part.Name != w.Name {
			return ctrl.Result{}, client.IgnoreNotFound(e.Delete(ctx, part))
		}
	}
	return quiet(ctx, e, w)
}

// leftoverField writes the number of parts into its part, and does not remove it when there are none any more.
func leftoverField(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if err := ensurePart(ctx, e, w, w.Name); err != nil {
		return ctrl.Result{}, err
	}
	part, parts := newPart(w, w.Name), ""
	if w.Spec.Parts > 0 {
		parts = fmt.Sprint(w.Spec.Parts)
	}
	if err := e.Get(ctx, client.ObjectKeyFromObject(part), part); err != nil {
		return ctrl.Result{}, err
	}
	if part.Data["parts"] != parts && (parts != "" || e.right) {
		part.Data["parts"] = parts
		if parts == "" {
			delete(part.Data, "parts")
		}
		if err := e.Update(ctx, part); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}
