package zoo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
)

// reborn deletes a Widget and creates another one with its name.
func reborn(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	return lab.Scenario{Steps: []lab.Step{lab.Create(w), lab.Remove(w), lab.Create(w)}}
}

// reusedName deletes the part of a Widget by its name. The name may belong to the part of the next Widget.
func reusedName(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return finalize(ctx, e, w, func() error {
		part := &corev1.ConfigMap{}
		err := e.Get(ctx, client.ObjectKeyFromObject(w), part)
		switch {
		case err == nil && e.right:
			err = deletePart(ctx, e, w, part)
		case err == nil:
			err = e.Delete(ctx, part)
		}
		return client.IgnoreNotFound(err)
	})
}

// busy changes a Widget often.
func busy(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	s := lab.Scenario{Steps: []lab.Step{lab.Create(w)}}
	s.Rest = 45 * time.Second // longer than a Lease
	for size := range int64(3) {
		s.Steps = append(s.Steps, lab.Update(w, func(w *Widget) { w.Spec.Size = 2 + size }))
	}
	return s
}

// grown gives a Widget a second part.
func grown(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1, Parts: 1})
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(w),
		lab.Update(w, func(w *Widget) { w.Spec.Parts = 2 }),
	}}
}

// staleScale deletes the part that a Widget has too many, also when it has read an old Widget. Its twin writes down first
// what it is about to do: the write fails if the Widget has changed.
func staleScale(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	for i := range w.Spec.Parts {
		if err := ensurePart(ctx, e, w, fmt.Sprintf("%s-%d", w.Name, i)); err != nil {
			return ctrl.Result{}, err
		}
	}
	surplus := newPart(w, fmt.Sprintf("%s-%d", w.Name, w.Spec.Parts))
	if e.right {
		err := e.Get(ctx, client.ObjectKeyFromObject(surplus), surplus)
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, setReady(ctx, e, w)
		}
		w.Status.Phase = "Shrinking"
		if err = errors.Join(err, e.Status().Update(ctx, w)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := e.Delete(ctx, surplus); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// lostUpdate writes back all that it has read of a Widget, whatever the Widget is now.
func lostUpdate(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	const marked = "zoo.flyball.dev/marked"
	if w.Annotations[marked] != "" {
		return quiet(ctx, e, w)
	}
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, marked, "true")
	if !e.right {
		content, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": w.Annotations}, "spec": w.Spec})
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, e.Patch(ctx, w, client.RawPatch(types.MergePatchType, content))
	}
	return ctrl.Result{}, e.Update(ctx, w)
}

// unorderedWrites sends two writes to the same field at once, and takes for granted which one is first.
func unorderedWrites(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	found, size := &corev1.ConfigMap{}, fmt.Sprint(w.Spec.Size)
	err := e.Get(ctx, client.ObjectKeyFromObject(w), found)
	switch {
	case apierrors.IsNotFound(err):
		delete(e.memory, w.Name)
		return ctrl.Result{}, e.Create(ctx, newPart(w, w.Name))
	case err != nil:
		return ctrl.Result{}, err
	case !metav1.IsControlledBy(found, w):
		return ctrl.Result{}, fmt.Errorf("the ConfigMap %s belongs to somebody else", found.Name)
	case e.memory[w.Name] == size, found.Data["size"] == size && found.Data["phase"] == "done":
		e.memory[w.Name] = size
		return ctrl.Result{}, setReady(ctx, e, w)
	}
	begin := func() error {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"data":{"phase":"begun"}}`, found.UID)
		return e.Patch(ctx, found.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	end := func() error {
		done := found.DeepCopy()
		done.ResourceVersion, done.Data = "", map[string]string{"size": size, "phase": "done"}
		return e.Update(ctx, done)
	}
	begun := make(chan error, 1)
	go func() { begun <- begin() }()
	if e.right {
		err = <-begun
		begun <- err
	}
	if err == nil {
		err = end()
	}
	if began := <-begun; err == nil {
		err = began
	}
	if err == nil {
		e.memory[w.Name] = size
	}
	return ctrl.Result{}, err
}

// backedUp has a backup of each part. The backup may replace no part that exists.
func backedUp(world *external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	return lab.Scenario{
		Begin: func() { *world = external{buckets: map[string]int{}} },
		Steps: []lab.Step{lab.Create(w), lab.Update(w, func(w *Widget) { w.Spec.Size = 2 })},
		Invariants: []lab.Invariant{{Name: "no part is replaced by its backup", Check: func(s *lab.State) error {
			part := s.Get("ConfigMap", "default", "web")
			delete(world.buckets, "part")
			if part != nil && isPart(part) {
				world.buckets["part"] = 1
			}
			if world.buckets["replaced"] > 0 {
				return errors.New("one is")
			}
			return nil
		}}},
	}
}

// lostPart restores a part that it has made and does not find any more. Its twin asks the server whether the name is free.
func lostPart(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	part := newPart(w, w.Name)
	if err := e.Get(ctx, client.ObjectKeyFromObject(part), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return quiet(ctx, e, w)
	}
	if e.memory[w.Name] == "made" {
		if e.right {
			if err := e.Create(ctx, newPart(w, w.Name), client.DryRunAll); err != nil {
				return ctrl.Result{}, err
			}
		}
		if err := lab.Call(e.config, "backup restore "+w.Name, func() error { e.world.buckets["replaced"] += e.world.buckets["part"]; return nil }); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := e.Create(ctx, part); err != nil {
		return ctrl.Result{}, err
	}
	e.memory[w.Name] = "made"
	return ctrl.Result{}, setReady(ctx, e, w)
}

// settings is a ConfigMap of the user.
func settings(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: settingsName}, Data: data}
}

// closed forbids the work for a Widget in two objects at once. Nobody may work afterwards.
func closed(world *external) lab.Scenario {
	w, all := newWidget("web", WidgetSpec{Size: 1}), settings(map[string]string{"open": "yes"})
	closeWidget := lab.Update(w, func(w *Widget) { w.Spec.Size = 0 })
	closeAll := lab.Update(all, func(all *corev1.ConfigMap) { all.Data = nil })
	return lab.Scenario{
		Begin:   func() { *world = external{buckets: map[string]int{}} },
		Objects: []client.Object{all},
		Steps: []lab.Step{lab.Create(w), {Name: "close default/web", Do: func(ctx context.Context, c client.Client) error {
			world.buckets["closed"] = 1
			return errors.Join(closeAll.Do(ctx, c), closeWidget.Do(ctx, c))
		}}},
		Invariants: []lab.Invariant{{Name: "nobody works for a Widget that is closed", AtRest: true, Check: func(*lab.State) error {
			if n := world.buckets["late"]; n > 0 {
				return errors.New("somebody has")
			}
			return nil
		}}},
	}
}

// oldPermission works while both its Widget and the settings allow it. It asks the server after its start, and then believes that not both
// can be old. Its twin asks the server each time.
func oldPermission(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	again, all := ctrl.Result{RequeueAfter: 25 * time.Second}, settings(nil)
	if err := e.Get(ctx, client.ObjectKeyFromObject(all), all); err != nil {
		return ctrl.Result{}, err
	}
	if w.Spec.Size == 0 || all.Data["open"] == "" {
		return again, nil
	}
	if e.right || e.memory["asked"] == "" {
		if err := errors.Join(e.Update(ctx, w, client.DryRunAll), e.Update(ctx, all, client.DryRunAll)); err != nil {
			return ctrl.Result{}, err
		}
		e.memory["asked"] = "yes"
	}
	return again, lab.Call(e.config, "work for "+w.Name, func() error { e.world.buckets["late"] += e.world.buckets["closed"]; return nil })
}

// lateEvent deletes a part that it has made and has not seen for a while: the server has the part and the cache does not, so it cannot be
// a right one. Its twin waits for the event.
func lateEvent(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	part := newPart(w, w.Name)
	if err := e.Get(ctx, client.ObjectKeyFromObject(part), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		delete(e.memory, w.Name)
		return quiet(ctx, e, w)
	}
	if e.memory[w.Name] == "made" {
		made := &corev1.ConfigMap{}
		err := e.server.Get(ctx, client.ObjectKeyFromObject(part), made)
		if err == nil && !e.right {
			err = deletePart(ctx, e, w, made)
		}
		if err == nil && e.right {
			return ctrl.Result{RequeueAfter: rePeriod}, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if err := e.Create(ctx, part); err != nil {
		return ctrl.Result{}, err
	}
	e.memory[w.Name] = "made"
	return ctrl.Result{RequeueAfter: rePeriod}, nil
}
