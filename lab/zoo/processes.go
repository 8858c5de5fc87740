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
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
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

// retryPeriod is how often a leader renews its Lease, and others try to take it. Each time is two requests of a run, so it is rare.
const retryPeriod = 5 * time.Second

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

// workLease is how long the Lease for a piece of work lasts.
const workLease = 15 * time.Second

// takeLease takes the Lease for a piece of work. It returns nil while another process holds the Lease. If forever is set, a
// holder holds the Lease also when the Lease has expired.
func (e *env) takeLease(ctx context.Context, namespace string, forever bool) (*coordinationv1.Lease, error) {
	leases, identity := e.leases.Leases(namespace), e.config.UserAgent
	lease, err := leases.Get(ctx, "work", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder != "" && holder != identity && (forever || time.Since(lease.Spec.RenewTime.Time) < workLease) {
		return nil, nil
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &identity, ptr.To(int32(workLease.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	return leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// release lets go of the Lease for a piece of work.
func (e *env) release(ctx context.Context, lease *coordinationv1.Lease) error {
	lease.Spec.HolderIdentity = ptr.To("")
	_, err := e.leases.Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// isDone reports whether a Widget needs no work.
func isDone(ctx context.Context, e *env, w *Widget) bool {
	part := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), part)
	return err == nil && metav1.IsControlledBy(part, w) && part.Data["size"] == fmt.Sprint(w.Spec.Size) &&
		w.Status.Size == w.Spec.Size && w.Status.ObservedGeneration == w.Generation
}

// workWithLease does the work for a Widget with a Lease. If limited is set, the work ends before the Lease does.
func workWithLease(ctx context.Context, e *env, w *Widget, limited, forever bool) (ctrl.Result, error) {
	if isDone(ctx, e, w) {
		return ctrl.Result{}, nil
	}
	lease, err := e.takeLease(ctx, w.Namespace, forever)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case lease == nil:
		return ctrl.Result{RequeueAfter: 5 * time.Second}, nil
	}
	work := ctx
	if limited {
		deadline, cancel := context.WithTimeout(ctx, workLease-5*time.Second)
		defer cancel()
		work = deadline
	}
	result, err := quiet(work, e, w)
	return result, errors.Join(err, e.release(ctx, lease))
}

// noDeadline takes a Lease for each piece of work, and has no time limit for the work.
func noDeadline(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return workWithLease(ctx, e, w, e.right, false)
}

// heirless takes the holder of a Lease for alive, also when the Lease has expired.
func heirless(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return workWithLease(ctx, e, w, true, !e.right)
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

// usedBucket lets a user use the bucket of a Widget. No part of the cluster shows whether there is one.
func usedBucket(world *external) lab.Scenario {
	s := buckets(world)
	s.Invariants = nil
	s.Steps = append(s.Steps[:1:1], lab.Step{Name: "use the bucket", Do: func(context.Context, client.Client) error {
		if world.buckets["web"] == 0 {
			return errors.New("there is no bucket")
		}
		return nil
	}})
	return s
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
	green := settings(map[string]string{"color": "green"})
	return lab.Scenario{
		Objects: []client.Object{green},
		Steps: []lab.Step{
			lab.Create(newWidget("web", WidgetSpec{Size: 1})),
			lab.Update(green, func(s *corev1.ConfigMap) { s.Data["color"] = "blue" }),
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

// The states of a migration, as a number of buckets.
const (
	migrationBegun = 1
	migrationDone  = 2
)

// migrate runs the migration of the external system, once.
func (e *env) migrate() error {
	if e.world.buckets["migration"] == migrationDone {
		return nil
	}
	for _, state := range []int{migrationBegun, migrationDone} {
		if err := lab.Call(e.config, fmt.Sprint("migration ", state), func() error { e.world.buckets["migration"] = state; return nil }); err != nil {
			return err
		}
	}
	return nil
}

// migrating adds a migration to a manager, which tries it until it succeeds.
func migrating(mgr manager.Manager, e *env) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for e.migrate() != nil && ctx.Err() == nil {
			select {
			case <-time.After(rePeriod):
			case <-ctx.Done():
			}
		}
		return nil
	}))
}

// errDirty is the error after a crash in the middle of a migration.
var errDirty = errors.New("the last migration has not ended")

// dirty does not start after a crash in the middle of its migration.
func dirty(mgr manager.Manager, e *env) error {
	if e.world.buckets["migration"] == migrationBegun && !e.right {
		return errDirty
	}
	return migrating(mgr, e)
}

// givesUp starts after a crash in the middle of its migration, and then ends with an error.
func givesUp(mgr manager.Manager, e *env) error {
	if e.world.buckets["migration"] == migrationBegun && !e.right {
		return mgr.Add(manager.RunnableFunc(func(context.Context) error { return errDirty }))
	}
	return migrating(mgr, e)
}

// early ends with an error as long as there is no Widget, and hopes that somebody starts it again.
func early(mgr manager.Manager, e *env) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for ctx.Err() == nil {
			all := &WidgetList{}
			switch err := e.List(ctx, all); {
			case err == nil && len(all.Items) > 0:
				return nil
			case !e.right:
				return errors.Join(errors.New("there is no Widget"), err)
			}
			select {
			case <-time.After(rePeriod):
			case <-ctx.Done():
			}
		}
		return nil
	}))
}

// unmigrated begins before the migration, which no Widget shows.
func unmigrated(world *external) lab.Scenario {
	s := buckets(world)
	s.Steps, s.Invariants = s.Steps[:1], nil
	return s
}
