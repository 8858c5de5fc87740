package zoo

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	locks "flyball.dev/ctrl/leaderelection"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/lab"
)

// writesOn elects its leader by itself, and goes on with its work when it has lost its Lease.
func writesOn(mgr manager.Manager, e *env) error {
	lock, err := locks.NewResourceLock(mgr.GetConfig(), nil, locks.Options{LeaderElection: true, LeaderElectionID: "zoo", LeaderElectionNamespace: "default"})
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for ctx.Err() == nil {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(leading context.Context) {
						if !e.right {
							leading = ctx
						}
						e.work(leading)
					},
					OnStoppedLeading: func() {},
				},
			})
		}
		return nil
	}))
}

// work keeps the parts of all Widgets until its context ends.
func (e *env) work(ctx context.Context) {
	for ctx.Err() == nil {
		all := &WidgetList{}
		err := e.List(ctx, all)
		for i := range all.Items {
			if err == nil {
				_, err = quiet(ctx, e, &all.Items[i])
			}
		}
		select {
		case <-time.After(rePeriod / 2): // also after an error
		case <-ctx.Done():
		}
	}
}

// noDeadline takes a Lease for each piece of work, and has no time limit for the work.
func noDeadline(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	const duration = 15 * time.Second
	part, identity := &corev1.ConfigMap{}, e.config.UserAgent
	if err := e.Get(ctx, client.ObjectKeyFromObject(w), part); err == nil && metav1.IsControlledBy(part, w) && part.Data["size"] == fmt.Sprint(w.Spec.Size) && w.Status.Size == w.Spec.Size {
		return ctrl.Result{}, nil
	}
	leases := e.leases.Leases(w.Namespace)
	lease, err := leases.Get(ctx, "work", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
	case err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "" && *lease.Spec.HolderIdentity != identity &&
		time.Since(lease.Spec.RenewTime.Time) < duration:
		return ctrl.Result{RequeueAfter: 5 * time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &identity, ptr.To(int32(duration.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return ctrl.Result{}, err
	}
	work := ctx
	if e.right {
		limited, cancel := context.WithTimeout(ctx, duration-5*time.Second)
		defer cancel()
		work = limited
	}
	result, err := quiet(work, e, w)
	lease.Spec.HolderIdentity = ptr.To("")
	_, failed := leases.Update(ctx, lease, metav1.UpdateOptions{})
	return result, errors.Join(err, failed)
}

// impatience takes a call that took long for a failure that is final.
func impatience(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.Status.Phase == "TimedOut" {
		return ctrl.Result{}, nil
	}
	began := time.Now()
	if err := ensurePart(ctx, e, w, w.Name); err != nil {
		return ctrl.Result{}, err
	}
	if time.Since(began) > 10*time.Minute && !e.right {
		w.Status.Phase = "TimedOut"
		return ctrl.Result{}, e.Status().Update(ctx, w)
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// panics looks at the result of a create that has failed.
func panics(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	var made *corev1.ConfigMap
	part := newPart(w, w.Name)
	err := e.Create(ctx, part)
	switch {
	case err == nil:
		made = part
	case apierrors.IsAlreadyExists(err):
		return quiet(ctx, e, w)
	case e.right:
		return ctrl.Result{}, err
	}
	e.memory["made"] = made.Name
	return ctrl.Result{}, setReady(ctx, e, w)
}

// nothing is the reconciler of an operator that works elsewhere.
func nothing(context.Context, *env, *Widget) (ctrl.Result, error) { return ctrl.Result{}, nil }

// noElection has two replicas, and both make buckets.
func noElection(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	exists := false
	err := lab.Call(e.config, "bucket get "+w.Name, func() error { exists = e.world.buckets[w.Name] > 0; return nil })
	if err == nil && !exists {
		err = lab.Call(e.config, "bucket create "+w.Name, func() error { e.world.buckets[w.Name]++; return nil })
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// oneBucket creates a Widget, which must never have two buckets.
func oneBucket(world *external) lab.Scenario {
	s := buckets(world)
	s.Steps, s.Invariants = s.Steps[:1], append(s.Invariants[:1:1], lab.Invariant{Name: "a bucket for each Widget", AtRest: true, Check: func(s *lab.State) error {
		if world.buckets["web"] == 0 && s.Get("Widget.zoo.flyball.dev", "default", "web") != nil {
			return errors.New("there is none")
		}
		return nil
	}})
	return s
}

// ignoredFailure does not look at the error of an external system.
func ignoredFailure(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.Status.Child == "" {
		err := lab.Call(e.config, "bucket ensure "+w.Name, func() error { e.world.buckets[w.Name] = 1; return nil })
		if err != nil && e.right {
			return ctrl.Result{}, err
		}
		w.Status.Child = "bucket"
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// withoutFinalizer deletes the bucket of a Widget when it sees that the Widget is gone, and does not keep the Widget until
// then.
func withoutFinalizer(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return leakFree(ctx, e, w)
	}
	if e.right && controllerutil.AddFinalizer(w, bucketFinalizer) {
		return ctrl.Result{}, e.Update(ctx, w)
	}
	if w.Status.Child == "" {
		err := lab.Call(e.config, "bucket ensure "+w.Name, func() error { e.world.buckets[w.Name] = 1; return nil })
		if err != nil {
			return ctrl.Result{}, err
		}
		w.Status.Child = "bucket"
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// deleteBucket deletes the bucket of a Widget that does not exist any more.
func deleteBucket(e *env, name string) error {
	return lab.Call(e.config, "bucket delete "+name, func() error { delete(e.world.buckets, name); return nil })
}

// unreadAnswer takes an error of a create for the proof that nothing was created, and what it finds then for somebody
// else's.
func unreadAnswer(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	part := newPart(w, w.Name)
	if e.memory[w.Name] != "failed" {
		if err := e.Get(ctx, client.ObjectKeyFromObject(part), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			return quiet(ctx, e, w)
		}
	}
	err := e.Create(ctx, part)
	switch {
	case err == nil:
		delete(e.memory, w.Name)
		return ctrl.Result{}, setReady(ctx, e, w)
	case !apierrors.IsAlreadyExists(err):
		e.memory[w.Name] = "failed"
	case e.memory[w.Name] == "failed" && e.right:
		delete(e.memory, w.Name)
	case e.memory[w.Name] == "failed":
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return ctrl.Result{}, err
}

// configured changes what all Widgets have in common.
func configured(*external) lab.Scenario {
	settings := &corev1.ConfigMap{}
	settings.Namespace, settings.Name = "default", settingsName
	settings.Data = map[string]string{"color": "green"}
	return lab.Scenario{
		Objects: []client.Object{settings},
		Steps: []lab.Step{
			lab.Create(newWidget("web", WidgetSpec{Size: 1})),
			lab.Update(settings, func(s *corev1.ConfigMap) { s.Data["color"] = "blue" }),
		},
	}
}

const settingsName = "settings"

// deaf writes the color of the settings into the status of each Widget.
func deaf(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if color := e.color.Load(); color != nil && w.Status.Child != *color {
		w.Status.Child = *color
		return ctrl.Result{RequeueAfter: rePeriod}, e.Status().Update(ctx, w)
	}
	return ctrl.Result{RequeueAfter: rePeriod}, nil
}

// watchSettings watches the settings without the cache. It ends when its watch does; its twin begins another watch.
func watchSettings(mgr manager.Manager, e *env) error {
	c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for again := true; again; again = e.right && ctx.Err() == nil {
			w, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": settingsName})
			for err == nil {
				event, ok := <-w.ResultChan()
				if !ok {
					break
				}
				if settings, ok := event.Object.(*corev1.ConfigMap); ok {
					e.color.Store(ptr.To(settings.Data["color"]))
				}
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		return nil
	}))
}

// leak has a goroutine for each Widget, which does not end with the operator.
func leak(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if e.memory[w.Name] == "" && !e.right {
		e.memory[w.Name] = "has a goroutine"
		go func() { <-make(chan struct{}) }()
	}
	return quiet(ctx, e, w)
}
