// Package statefulset creates, updates and deletes the pods of StatefulSets and their claims in the order of the
// ordinals, and records the revisions of their templates.
//
// The next plan is a pure function of the StatefulSet, its pods and their claims ([nextPlan]). Each reconcile executes
// one plan. The changes trigger the next reconcile.
//
// The feature gate MaxUnavailableStatefulSet is enabled, as by default in Kubernetes 1.37, and
// StatefulSetRecreateStrategy is not.
//
// A plan is a list of phases. A phase runs only if the one before had no error. With the policy OrderedReady the plan
// ends at the first pod that must be created or awaited. A random model checks the order.
package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// AddToManager adds the controller.
//
//upstream:pkg/controller/statefulset.NewStatefulSetController
func AddToManager(mgr manager.Manager) error {
	for _, owned := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), owned); err != nil {
			return err
		}
	}
	recorder := events.RecorderFor(mgr, "statefulset-controller")
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	return builder.ControllerManagedBy(mgr).
		Named("statefulset").
		For(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters)),
			builder.WithPredicates(claim.Claimable)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.awaitingDeletion),
			builder.WithPredicates(watches.OnlyDeletes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// reconciler reconciles StatefulSets.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// adopters returns the StatefulSets that would adopt a pod.
//
//upstream:pkg/controller/statefulset.StatefulSetController.getStatefulSetsForPod
func (r *reconciler) adopters(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &appsv1.StatefulSetList{}, pod, func(set *appsv1.StatefulSet) *metav1.LabelSelector {
		if _, ok := ordinalOf(set, pod.(*corev1.Pod)); !ok {
			return nil
		}
		return set.Spec.Selector
	})
}

// awaitingDeletion returns the StatefulSets that may wait for the deletion of a claim, or have to create the claim
// again. It compares names.
func (r *reconciler) awaitingDeletion(ctx context.Context, pvc client.Object) []reconcile.Request {
	sets := &appsv1.StatefulSetList{}
	if err := r.client.List(ctx, sets, client.InNamespace(pvc.GetNamespace())); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		set := &sets.Items[i]
		for _, t := range claimTemplates(set) {
			if strings.HasPrefix(pvc.GetName(), t.Name+"-"+set.Name+"-") {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
				break
			}
		}
	}
	return requests
}

// Reconcile executes the next plan for one StatefulSet, and updates its status and history.
//
//upstream:pkg/controller/statefulset.StatefulSetController.sync
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	revisions, err := claim.Claim[*appsv1.ControllerRevision](ctx, r.client, r.live, set, kind, selector, &appsv1.ControllerRevisionList{})
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	if orphans, err := r.hasOrphans(ctx, set, selector); orphans || err != nil {
		return reconcile.Result{}, err
	}
	pods, err := claim.Claim(ctx, r.client, r.live, set, kind, selector, &corev1.PodList{}, func(pod *corev1.Pod) bool {
		_, ok := ordinalOf(set, pod)
		return ok
	})
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	h, err := historyOf(set, revisions)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	after, err := r.sync(ctx, set, pods, &h)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // nothing can be created in the namespace any more
	}
	return requeue.After(after, claim.IgnoreOwnerDeleted(err))
}

// hasOrphans reports whether a StatefulSet that is being deleted has revisions without an owner: they are left to the next
// StatefulSet, and this one must not create them again.
//
//upstream:pkg/controller/statefulset.StatefulSetController.adoptOrphanRevisions
func (r *reconciler) hasOrphans(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) (bool, error) {
	if set.DeletionTimestamp == nil {
		return false, nil // they were adopted
	}
	list := &appsv1.ControllerRevisionList{}
	err := r.client.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector})
	return slices.ContainsFunc(list.Items, func(r appsv1.ControllerRevision) bool { return metav1.GetControllerOf(&r) == nil }), err
}

// sync executes the next plan for a StatefulSet with these pods and this history, and returns the time until the plan after it.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.performUpdate
func (r *reconciler) sync(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, h *history) (time.Duration, error) {
	if err := r.saveRevision(ctx, set, h); err != nil {
		return 0, err
	}
	claims := &claimReader{ctx: ctx, reader: r.client, namespace: set.Namespace}
	o := &observed{set: set, pods: pods, claim: claims.get, now: time.Now(),
		update: revision{h.update.Name, &set.Spec.Template}, current: revision{h.current.Name, &set.Spec.Template}}
	if h.current != h.update {
		template, err := templateOf(set, h.current)
		if err != nil {
			return 0, reconcile.TerminalError(fmt.Errorf("revision %s: %w", h.current.Name, err))
		}
		o.current.template = template
	}
	p := nextPlan(o)
	if claims.err != nil {
		return 0, claims.err
	}
	err := r.execute(ctx, set, &p)
	if !equality.Semantic.DeepEqual(p.status, set.Status) {
		set.Status = p.status
		err = errors.Join(err, client.IgnoreNotFound(r.client.Status().Update(ctx, set)))
	}
	err = errors.Join(err, r.truncateHistory(ctx, h.beyondLimit(set, pods)))
	return p.after, err
}

// claimReader reads claims of a namespace. The first error is kept.
type claimReader struct {
	ctx       context.Context
	reader    client.Reader
	namespace string
	err       error
}

// get returns a claim, or nil if it does not exist or there was an error.
func (r *claimReader) get(name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	err := r.reader.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, c)
	if err == nil {
		return c
	}
	if !apierrors.IsNotFound(err) && r.err == nil {
		r.err = err
	}
	return nil
}

// saveRevision creates or renumbers the update revision. If another revision has the name, it increments the collision
// count in the status of set and uses another name.
//
//upstream:pkg/controller/history.realHistory.CreateControllerRevision
//upstream:pkg/controller/history.realHistory.UpdateControllerRevision
func (r *reconciler) saveRevision(ctx context.Context, set *appsv1.StatefulSet, h *history) error {
	if h.renumber {
		return r.client.Update(ctx, h.update)
	}
	if !h.create {
		return nil
	}
	isCurrent := h.current == h.update
	for count := collisions(set); ; {
		revision := h.update.DeepCopy()
		err := r.client.Create(ctx, revision)
		if apierrors.IsAlreadyExists(err) {
			existing := &appsv1.ControllerRevision{}
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(h.update), existing); err != nil {
				return err
			}
			if !metav1.IsControlledBy(existing, set) || string(existing.Data.Raw) != string(h.update.Data.Raw) {
				count++
				nameRevision(set, h.update, count)
				set.Status.CollisionCount = &count
				continue
			}
			revision, err = existing, nil
		}
		if err != nil {
			return err
		}
		h.update = revision
		if isCurrent {
			h.current = revision
		}
		return nil
	}
}

// truncateHistory deletes old revisions.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.truncateHistory
func (r *reconciler) truncateHistory(ctx context.Context, old []*appsv1.ControllerRevision) error {
	for _, revision := range old {
		if err := r.client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// execute executes a plan, up to the phase in which there is an error.
//
//upstream:pkg/controller/statefulset.runForAll
//upstream:pkg/controller/statefulset.slowStartBatch
func (r *reconciler) execute(ctx context.Context, set *appsv1.StatefulSet, p *plan) error {
	for _, phase := range p.phases {
		limit := 1
		if set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
			limit = len(phase)
		}
		// Batches double in size, so that an error that concerns all pods occurs once.
		for batch := 1; len(phase) > 0; batch = min(2*batch, limit) {
			n := min(batch, len(phase))
			err := podcontrol.InParallel(n, func(i int) error { return r.act(ctx, set, &phase[i]) })
			if err != nil {
				return err
			}
			phase = phase[n:]
		}
	}
	return nil
}
