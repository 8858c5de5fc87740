package zoo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/lab"
)

// animal is an operator with one mistake.
type animal struct {
	name      string
	reconcile reconciler
	scenario  func(world *external) lab.Scenario
	gone      func(e *env, name string) error         // if not nil, called for Widgets that do not exist
	setUp     func(mgr manager.Manager, e *env) error // if not nil, adds more to the manager
	blind     bool                                    // the controller does not watch ConfigMaps
	replicas  int                                     // by default 1
	elects    bool                                    // the twin elects a leader
	stale     bool                                    // reads need not include the operator's own writes
}

var animals = []animal{
	{name: "missing requeue", reconcile: missingRequeue},
	{name: "double create", reconcile: doubleCreate},
	{name: "forgotten finalizer", reconcile: forgottenFinalizer, scenario: deleted},
	{name: "forgotten deletion", reconcile: forgottenDeletion, scenario: deleted},
	{name: "exists", reconcile: exists},
	{name: "status behind", reconcile: statusBehind},
	{name: "truth in advance", reconcile: truthInAdvance},
	{name: "ignored conflict", reconcile: ignoredConflict},
	{name: "terminal refusal", reconcile: terminalRefusal},
	{name: "memory", reconcile: memory},
	{name: "edge triggered", reconcile: edgeTriggered},
	{name: "wrong owner", reconcile: wrongOwner},
	{name: "late owner", reconcile: lateOwner, scenario: deleted},
	{name: "unwatched part", reconcile: unwatchedPart, blind: true},
	{name: "unmissed part", reconcile: unwatchedPart, scenario: deleted, blind: true},
	{name: "two buckets", reconcile: twoBuckets, scenario: buckets},
	{name: "restless", reconcile: restless},
	{name: "hot loop", reconcile: hotLoop},
	{name: "busy wait", reconcile: busyWait},
	{name: "collision", reconcile: collision, scenario: two},
	{name: "unfinished generation", reconcile: unfinishedGeneration},
	{name: "reused name", reconcile: reusedName, scenario: reborn},
	{name: "stale scale", reconcile: staleScale, scenario: grown},
	{name: "lost update", reconcile: lostUpdate},
	{name: "unordered writes", reconcile: unorderedWrites},
	{name: "two owners", reconcile: twoOwners, scenario: two, blind: true},
	{name: "elsewhere", reconcile: elsewhere},
	{name: "misspelt owner", reconcile: misspeltOwner, scenario: deleted},
	{name: "old owner", reconcile: oldOwner},
	{name: "inherited part", reconcile: inheritedPart, scenario: replaced},
	{name: "unseen deletion", reconcile: unseenDeletion, scenario: replaced, gone: forget},
	{name: "only grows", reconcile: onlyGrows},
	{name: "broad selection", reconcile: broadSelection, scenario: namesakes},
	{name: "writes on", reconcile: nothing, scenario: busy, setUp: writesOn, replicas: 2},
	{name: "no election", reconcile: noElection, scenario: oneBucket, replicas: 2, elects: true},
	{name: "ignored failure", reconcile: ignoredFailure, scenario: oneBucket},
	{name: "without finalizer", reconcile: withoutFinalizer, scenario: buckets, gone: deleteBucket},
	{name: "unread answer", reconcile: unreadAnswer},
	{name: "no deadline", reconcile: noDeadline, replicas: 2},
	{name: "impatience", reconcile: impatience},
	{name: "panic", reconcile: panics},
	{name: "leak", reconcile: leak},
	{name: "overload", reconcile: overload},
	{name: "assumed effect", reconcile: assumedEffect},
	{name: "broken connection", reconcile: brokenConnection},
	{name: "first look", reconcile: firstLook},
	{name: "heirless", reconcile: heirless},
	{name: "unusable bucket", reconcile: ignoredFailure, scenario: usedBucket},
	{name: "dirty", reconcile: nothing, scenario: unmigrated, setUp: dirty},
	{name: "gives up", reconcile: nothing, scenario: unmigrated, setUp: givesUp},
	{name: "leftover field", reconcile: leftoverField},
	{name: "early", reconcile: quiet, setUp: early},
	{name: "dice", reconcile: dice, scenario: twice},
	{name: "deaf", reconcile: deaf, scenario: configured, setUp: watchSettings, blind: true},
	{name: "lost part", reconcile: lostPart, scenario: backedUp, stale: true},
	{name: "old permission", reconcile: oldPermission, scenario: closed},
	{name: "late event", reconcile: lateEvent, scenario: created, stale: true},
	{name: "half resize", reconcile: halfResize},
	{name: "stale resize", reconcile: staleResize},
	{name: "stale deletion", reconcile: staleDeletion, scenario: reborn},
	{name: "unseen growth", reconcile: unseenGrowth, scenario: shrunk},
	{name: "reused claim", reconcile: reusedClaim, scenario: reborn},
	{name: "stale claim", reconcile: staleClaim, scenario: regrown},
	{name: "works on", reconcile: worksOn, scenario: mourned},
}

// scenarioOf returns the scenario of an animal. By default a Widget is created and changed.
func (a *animal) scenarioOf(world *external) lab.Scenario {
	if a.scenario != nil {
		return a.scenario(world)
	}
	w := newWidget("web", WidgetSpec{Size: 1, Parts: 2})
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(w),
		lab.Update(w, func(w *Widget) { w.Spec.Size = 2 }),
	}}
}

func created(*external) lab.Scenario {
	return lab.Scenario{Steps: []lab.Step{lab.Create(newWidget("web", WidgetSpec{Size: 1}))}}
}

func deleted(*external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1, Parts: 1})
	return lab.Scenario{Steps: []lab.Step{lab.Create(w), lab.Remove(w)}}
}

func two(*external) lab.Scenario {
	return lab.Scenario{Steps: []lab.Step{
		lab.Create(newWidget("warehouse-of-berlin", WidgetSpec{Size: 1})),
		lab.Create(newWidget("warehouse-of-bergen", WidgetSpec{Size: 2})),
	}}
}

func buckets(world *external) lab.Scenario {
	w := newWidget("web", WidgetSpec{Size: 1})
	return lab.Scenario{
		Begin: func() { *world = external{buckets: map[string]int{}} },
		Steps: []lab.Step{lab.Create(w), lab.Remove(w)},
		Invariants: []lab.Invariant{
			{Name: "one bucket a Widget", Check: func(*lab.State) error {
				if n := world.buckets["web"]; n > 1 {
					return fmt.Errorf("there are %d", n)
				}
				return nil
			}},
			{Name: "no bucket without a Widget", AtRest: true, Check: func(s *lab.State) error {
				if n := world.buckets["web"]; n > 0 && s.Get("Widget.zoo.flyball.dev", "default", "web") == nil {
					return errors.New("there is one")
				}
				return nil
			}},
		},
	}
}

// ensurePart creates or updates a part, and restores its size.
func ensurePart(ctx context.Context, e *env, w *Widget, name string) error {
	return ensure(ctx, e, w, newPart(w, name))
}

func ensure(ctx context.Context, e *env, w *Widget, wanted *corev1.ConfigMap) error {
	found := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	switch {
	case apierrors.IsNotFound(err):
		return e.Create(ctx, wanted)
	case err != nil:
		return err
	case !metav1.IsControlledBy(found, w):
		return fmt.Errorf("the ConfigMap %s belongs to somebody else", wanted.Name)
	case found.Data["size"] == wanted.Data["size"]:
		return nil
	}
	found.Data = wanted.Data
	return e.Update(ctx, found)
}

// setReady writes the status of a Widget with nothing left to do.
func setReady(ctx context.Context, e *env, w *Widget) error {
	status := w.Status
	status.ObservedGeneration, status.Phase, status.Size = w.Generation, "Ready", w.Spec.Size
	if status == w.Status {
		return nil
	}
	w.Status = status
	return e.Status().Update(ctx, w)
}

// quiet does what every operator of the zoo should do.
func quiet(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if err := ensurePart(ctx, e, w, w.Name); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// missingRequeue logs an error and waits for an event that does not come.
func missingRequeue(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if err := ensurePart(ctx, e, w, w.Name); err != nil {
		if e.right {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// doubleCreate lets the server choose the name of a part, and remembers it afterwards.
func doubleCreate(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if w.Status.Child == "" {
		part := newPart(w, w.Name)
		if !e.right {
			part.Name, part.GenerateName = "", w.Name+"-"
		}
		if err := e.Create(ctx, part); err != nil && !(e.right && apierrors.IsAlreadyExists(err)) {
			return ctrl.Result{}, err
		}
		w.Status.Child = part.Name
		if e.right {
			w.Status.Child = w.Name
		}
		return ctrl.Result{}, setReady(ctx, e, w)
	}
	if e.right {
		if err := ensurePart(ctx, e, w, w.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

const partFinalizer = "zoo.flyball.dev/part"

// finalize keeps the part of a Widget, and calls remove before the Widget goes.
func finalize(ctx context.Context, e *env, w *Widget, remove func() error) (ctrl.Result, error) {
	if w.DeletionTimestamp == nil {
		if controllerutil.AddFinalizer(w, partFinalizer) {
			return ctrl.Result{}, e.Update(ctx, w)
		}
		return quiet(ctx, e, w)
	}
	if err := remove(); err != nil {
		return ctrl.Result{}, err
	}
	if controllerutil.RemoveFinalizer(w, partFinalizer) {
		return ctrl.Result{}, client.IgnoreNotFound(e.Update(ctx, w))
	}
	return ctrl.Result{}, nil
}

// forgottenFinalizer cannot delete an object twice.
func forgottenFinalizer(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	return finalize(ctx, e, w, func() error {
		part := &corev1.ConfigMap{}
		err := e.Get(ctx, client.ObjectKeyFromObject(w), part)
		if err == nil && metav1.IsControlledBy(part, w) {
			err = e.Delete(ctx, part, client.Preconditions{UID: &part.UID})
		}
		if apierrors.IsNotFound(err) && e.right {
			err = nil
		}
		return err
	})
}

// forgottenDeletion has a finalizer and never removes it.
func forgottenDeletion(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	isDeleted := w.DeletionTimestamp != nil
	if !isDeleted && controllerutil.AddFinalizer(w, partFinalizer) || isDeleted && e.right && controllerutil.RemoveFinalizer(w, partFinalizer) {
		return ctrl.Result{}, e.Update(ctx, w)
	}
	return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
}

// exists takes its own part for somebody else's.
func exists(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.Status.Child == "" {
		err := e.Create(ctx, newPart(w, w.Name))
		if apierrors.IsAlreadyExists(err) && !e.right {
			return ctrl.Result{}, reconcile.TerminalError(err)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
		w.Status.Child = w.Name
		return ctrl.Result{}, setReady(ctx, e, w)
	}
	return quiet(ctx, e, w)
}

// statusBehind writes its status only when it has just changed something.
func statusBehind(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), found)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	upToDate := err == nil && found.Data["size"] == fmt.Sprint(w.Spec.Size)
	if upToDate && !e.right {
		return ctrl.Result{}, nil
	}
	return quiet(ctx, e, w)
}

// truthInAdvance says in the status that the work is done, before it is.
func truthInAdvance(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if e.right {
		return quiet(ctx, e, w)
	}
	if w.Status.Size == w.Spec.Size {
		return ctrl.Result{}, nil
	}
	if err := setReady(ctx, e, w); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
}

// ignoredConflict takes a conflict for the sign that somebody else has done the work.
func ignoredConflict(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if apierrors.IsConflict(err) && !e.right {
		return ctrl.Result{}, nil
	}
	return result, err
}

// terminalRefusal takes the answer of an admission webhook for final.
func terminalRefusal(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if apierrors.IsForbidden(err) && !e.right {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return result, err
}

// memory keeps its progress in a variable.
func memory(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	size := fmt.Sprint(w.Spec.Size)
	if e.memory[w.Name] != size {
		if err := ensurePart(ctx, e, w, w.Name); err != nil {
			return ctrl.Result{}, err
		}
		e.memory[w.Name] = size
		if !e.right && w.Status.Phase == "" {
			w.Status.Phase = "Working"
			if err := e.Status().Update(ctx, w); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{RequeueAfter: rePeriod}, nil
	}
	if e.right {
		return quiet(ctx, e, w)
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// edgeTriggered needs to see each state of a Widget: it acts on the first one with size 1 alone.
func edgeTriggered(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.Spec.Size == 1 || e.right {
		if err := ensurePart(ctx, e, w, w.Name+"-base"); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !e.right && w.Spec.Size != 1 {
		// The base is there, and only needs its size.
		base := &corev1.ConfigMap{}
		if err := e.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name + "-base"}, base); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if base.Data["size"] != fmt.Sprint(w.Spec.Size) {
			base.Data["size"] = fmt.Sprint(w.Spec.Size)
			if err := e.Update(ctx, base); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// wrongOwner takes whatever has the name of its part.
func wrongOwner(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), found)
	if !e.right && err == nil && !metav1.IsControlledBy(found, w) {
		part := newPart(w, w.Name)
		found.Data, found.OwnerReferences = part.Data, part.OwnerReferences
		return ctrl.Result{}, e.Update(ctx, found)
	}
	return quiet(ctx, e, w)
}

// lateOwner gives its part an owner with a second write.
func lateOwner(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	found := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), found)
	if err == nil && !metav1.IsControlledBy(found, w) {
		return ctrl.Result{RequeueAfter: rePeriod}, nil // until it is gone
	}
	if err == nil {
		return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
	}
	if !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	part := newPart(w, w.Name)
	if e.right {
		return ctrl.Result{}, e.Create(ctx, part)
	}
	owners := part.OwnerReferences
	part.OwnerReferences = nil
	if err := e.Create(ctx, part); err != nil {
		return ctrl.Result{}, err
	}
	part.OwnerReferences = owners
	return ctrl.Result{}, e.Update(ctx, part)
}

// unwatchedPart does not watch what it has made.
func unwatchedPart(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if e.right && err == nil {
		result.RequeueAfter = rePeriod
	}
	return result, err
}

// bucketFinalizer keeps a Widget until its bucket is deleted.
const bucketFinalizer = "zoo.flyball.dev/bucket"

// twoBuckets creates a bucket and notes it afterwards.
func twoBuckets(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp != nil {
		return leakFree(ctx, e, w)
	}
	if w.Status.Child != "" {
		return ctrl.Result{}, setReady(ctx, e, w)
	}
	if controllerutil.AddFinalizer(w, bucketFinalizer) {
		return ctrl.Result{}, e.Update(ctx, w)
	}
	err := lab.Call(e.config, "bucket create "+w.Name, func() error {
		if e.right && e.world.buckets[w.Name] > 0 {
			return nil // the name of the Widget is the key of the request
		}
		e.world.buckets[w.Name]++
		return nil
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	w.Status.Child = "bucket"
	return ctrl.Result{}, setReady(ctx, e, w)
}

// leakFree deletes the bucket of a Widget before the Widget goes.
func leakFree(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(w, bucketFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := lab.Call(e.config, "bucket delete "+w.Name, func() error { delete(e.world.buckets, w.Name); return nil }); err != nil {
		return ctrl.Result{}, err
	}
	controllerutil.RemoveFinalizer(w, bucketFinalizer)
	return ctrl.Result{}, client.IgnoreNotFound(e.Update(ctx, w))
}

// restless writes down when it has started.
func restless(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if !e.right && e.memory["started"] == "" {
		e.memory["started"] = "true"
		before := client.MergeFrom(w.DeepCopyObject().(client.Object))
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, "zoo.flyball.dev/started", time.Now().String())
		if err := e.Patch(ctx, w, before); err != nil {
			return ctrl.Result{}, err
		}
	}
	return quiet(ctx, e, w)
}

// hotLoop looks at a Widget every second after an error, and writes down when, for ever.
func hotLoop(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	const looked = "zoo.flyball.dev/looked"
	result, err := quiet(ctx, e, w)
	if err != nil {
		e.memory["troubled"] = "true"
		return result, err
	}
	if e.right {
		delete(e.memory, "troubled")
	}
	if e.memory["troubled"] == "" && w.Annotations[looked] != "" {
		return result, nil
	}
	before := client.MergeFrom(w.DeepCopyObject().(client.Object))
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, looked, time.Now().String())
	return ctrl.Result{RequeueAfter: time.Second}, e.Patch(ctx, w, before)
}

// busyWait looks at its cache after an error, for ever and without a pause.
func busyWait(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	switch {
	case err != nil:
		e.memory["troubled"] = "true"
	case e.memory["troubled"] != "" && e.right:
		result.RequeueAfter = time.Second
	case e.memory["troubled"] != "":
		result.RequeueAfter = time.Millisecond
	}
	return result, err
}

// dice makes its parts in an order that differs from run to run.
func dice(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	suffixes := slices.Collect(maps.Keys(map[string]bool{"-a": true, "-b": true, "-c": true, "-d": true, "-e": true}))
	if e.right {
		slices.Sort(suffixes)
	}
	for _, suffix := range suffixes {
		if err := ensurePart(ctx, e, w, w.Name+suffix); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, setReady(ctx, e, w)
}

// twice creates a Widget, and carries out each run twice.
func twice(*external) lab.Scenario {
	return lab.Scenario{Steps: []lab.Step{lab.Create(newWidget("web", WidgetSpec{Size: 1}))}, Twice: true}
}

// collision cuts the names of its parts.
func collision(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	name := w.Name
	if e.right {
		return ctrl.Result{}, ensurePart(ctx, e, w, name)
	}
	name = name[:12]
	part, found := newPart(w, name), &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(part), found)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, e.Create(ctx, part)
	case err == nil && found.Data["size"] != part.Data["size"]:
		found.Data = part.Data
		found.OwnerReferences = part.OwnerReferences
		err = e.Update(ctx, found)
	}
	if err == nil {
		return ctrl.Result{RequeueAfter: rePeriod}, nil
	}
	return ctrl.Result{}, err
}

// unfinishedGeneration copies the generation of a Widget that it has read before its own change.
func unfinishedGeneration(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	if w.Status.Phase == "Ready" && !e.right {
		return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
	}
	return quiet(ctx, e, w)
}
