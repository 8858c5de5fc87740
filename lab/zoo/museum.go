package zoo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/lab"
)

// This file tells again the bugs that others have published of two operators, for RabbitMQ and for ZooKeeper. A ConfigMap stands for
// a StatefulSet, and another one for its claim.

// confirm writes a phase into the status. The server refuses that if the Widget is not the newest one.
func confirm(ctx context.Context, e *env, w *Widget, phase string) error {
	w.Status.Phase = phase
	return e.Status().Update(ctx, w)
}

// deletePart deletes a part of a Widget, and no other object with its name.
func deletePart(ctx context.Context, e *env, w *Widget, part *corev1.ConfigMap) error {
	if !metav1.IsControlledBy(part, w) {
		return nil
	}
	return client.IgnoreNotFound(e.Delete(ctx, part, client.Preconditions{UID: &part.UID}))
}

// resize brings a part and its claim to the size of a Widget. The size of a part is immutable: the part is deleted, and created again
// with a larger claim. If confirmed is set, only the part that was read is deleted, and only if the Widget is the newest one. If
// levelTriggered is set, the claim grows also when the part is gone already.
func resize(ctx context.Context, e *env, w *Widget, confirmed, levelTriggered bool) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	part, claim := &corev1.ConfigMap{}, newPart(w, w.Name+"-claim")
	err := e.Get(ctx, client.ObjectKeyFromObject(w), part)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	differs := err == nil && metav1.IsControlledBy(part, w) && part.Data["size"] != fmt.Sprint(w.Spec.Size)
	switch {
	case differs && confirmed:
		err = confirm(ctx, e, w, "Resizing")
		if err == nil {
			err = deletePart(ctx, e, w, part)
		}
	case differs:
		err = e.Delete(ctx, part)
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	err = e.Get(ctx, client.ObjectKeyFromObject(claim), claim.DeepCopy())
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if differs || levelTriggered || err != nil {
		if err := ensurePart(ctx, e, w, claim.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := ensurePart(ctx, e, w, w.Name); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// halfResize is RabbitMQ's 782: the claim grows only if the part has the old size.
func halfResize(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return resize(ctx, e, w, true, e.right)
}

// staleResize is RabbitMQ's 653: on a stale view the part still has the old size, and the operator deletes the next part with its name.
func staleResize(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return resize(ctx, e, w, e.right, true)
}

// staleDeletion is RabbitMQ's 648: before a Widget goes, its part is told to stop, and deleted, by its name.
func staleDeletion(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return finalize(ctx, e, w, func() error {
		part := &corev1.ConfigMap{}
		err := e.Get(ctx, client.ObjectKeyFromObject(w), part)
		if err == nil && (!e.right || metav1.IsControlledBy(part, w)) {
			part.Data = map[string]string{"stop": "at once"}
			if err = e.Update(ctx, part); err == nil {
				err = e.Delete(ctx, part)
			}
		}
		return client.IgnoreNotFound(err)
	})
}

// shrunk gives a Widget three parts, and two at once afterwards.
func shrunk(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1, Parts: 1})
	grow := lab.Update(w, func(w *Widget) { w.Spec.Parts = 3 })
	shrink := lab.Update(w, func(w *Widget) { w.Spec.Parts = 2 })
	return lab.Scenario{Steps: []lab.Step{lab.Create(w), {Name: "grow and shrink default/web", Do: func(ctx context.Context, c client.Client) error {
		return errors.Join(grow.Do(ctx, c), shrink.Do(ctx, c))
	}}}}
}

// scale creates the parts that a Widget lacks and, if surplus is set, deletes the ones that it has too many. If confirmed is set, the Widget
// is known to be the newest one before.
func scale(ctx context.Context, e *env, w *Widget, confirmed, surplus bool) error {
	all := &corev1.ConfigMapList{}
	if err := e.List(ctx, all, client.InNamespace(w.Namespace), client.MatchingLabels{"widget": w.Name}); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range w.Spec.Parts {
		wanted[fmt.Sprintf("%s-%d", w.Name, i)] = true
	}
	excess := slices.DeleteFunc(slices.Clone(all.Items), func(part corev1.ConfigMap) bool { return wanted[part.Name] })
	if confirmed && (surplus && len(excess) > 0 || len(all.Items) < len(wanted)) {
		if err := confirm(ctx, e, w, "Scaling"); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := ensurePart(ctx, e, w, name); err != nil {
			return err
		}
	}
	for i := range excess {
		if !surplus {
			break
		}
		if err := deletePart(ctx, e, w, &excess[i]); err != nil {
			return err
		}
	}
	return nil
}

// unseenGrowth is RabbitMQ's 758: no part is ever taken away, so how many there are depends on what the operator has seen.
func unseenGrowth(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if err := scale(ctx, e, w, true, e.right); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// reusedClaim is ZooKeeper's 312: before a Widget goes, all claims with its label are deleted.
func reusedClaim(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return finalize(ctx, e, w, func() error {
		claims := &corev1.ConfigMapList{}
		if err := e.List(ctx, claims, client.InNamespace(w.Namespace), client.MatchingLabels{"widget": w.Name}); err != nil {
			return err
		}
		for i := range claims.Items {
			var err error
			if e.right {
				err = deletePart(ctx, e, w, &claims.Items[i])
			} else {
				err = client.IgnoreNotFound(e.Delete(ctx, &claims.Items[i]))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// regrown takes a part from a Widget, and gives it back.
func regrown(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1, Parts: 2})
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(w),
		lab.Update(w, func(w *Widget) { w.Spec.Parts = 1 }),
		lab.Update(w, func(w *Widget) { w.Spec.Parts = 2 }),
	}}
}

// staleClaim is ZooKeeper's 314: claims are deleted when the status says that as many members are ready as the Widget wants.
func staleClaim(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	isReady := w.Status.Size == w.Spec.Parts
	if err := scale(ctx, e, w, e.right, isReady); err != nil {
		return ctrl.Result{}, err
	}
	status := w.Status
	status.ObservedGeneration, status.Phase, status.Size = w.Generation, "Ready", w.Spec.Parts
	if status == w.Status {
		return ctrl.Result{}, nil
	}
	w.Status = status
	return ctrl.Result{}, e.Status().Update(ctx, w)
}

// mourned deletes a Widget. Nobody may make a part for a Widget that is gone.
func mourned(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	uid := ""
	return lab.Scenario{
		Begin: func() { uid = "" },
		Steps: []lab.Step{lab.Create(w), lab.Remove(w)},
		Invariants: []lab.Invariant{{Name: "no part is made for a Widget that is gone", Check: func(s *lab.State) error {
			part := s.Get("ConfigMap", "default", "web")
			if part == nil || string(part.GetUID()) == uid {
				return nil
			}
			uid = string(part.GetUID())
			if isPart(part) && s.Get("Widget.zoo.flyball.dev", "default", "web") == nil {
				return errors.New("one is")
			}
			return nil
		}}},
	}
}

// worksOn is ZooKeeper's 410: after the last finalizer is removed, the reconcile goes on, although the Widget does not exist any more.
func worksOn(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	change := controllerutil.AddFinalizer
	if w.DeletionTimestamp != nil {
		change = controllerutil.RemoveFinalizer
	}
	if change(w, partFinalizer) {
		if err := e.Update(ctx, w); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	w.Status.ObservedGeneration = w.Generation
	if err := confirm(ctx, e, w, "Working"); err != nil && (e.right || !apierrors.IsNotFound(err)) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
}
