// Package pods is the stand-in for kubelet: it simulates nodes and their kubelets. It keeps the nodes ready, sets the
// statuses of the pods on them so that they start, become ready and terminate, and completes their deletion. One
// process serves all nodes, each with the identity of its kubelet.
//
// No image runs. The pods of Jobs succeed at once, and other pods run until they are deleted. Annotations of a pod
// change that: [OutcomeAnnotation], [DurationAnnotation] and [ExitCodeAnnotation]. Terminated containers restart by
// their restart policy, with kubelet's back-off. [Options] apply to all pods. Without processes, the next status is a
// function of the pod and the time, so a restart of the controller changes nothing. Pods on nodes that users add belong
// to their kubelets, unless an annotation of the node says otherwise.
//
// # A pod's life
//
// The scheduler binds the pod to a node. Then [reconciler.Reconcile] is kubelet: it reserves an address, waits for
// volumes ([reconciler.provide]), plans the next step ([reconciler.plan], [next]) and executes it
// ([reconciler.execute]). The status follows from the courses of the containers ([containers.status]), and a change
// that time brings is a requeue. A deletion, an eviction or a deadline ends the containers within the grace period
// ([end]). The last step deletes the object with a grace period of zero.
//
// The next step is a pure function of the pod, of its processes and of the time. A course says what a run of a
// container does at a time: by a script, by an annotation, or by the state of a process. A step may ask for processes
// to be started or stopped; the reconciler does that and computes the step again. A reconcile that has started a
// process waits two milliseconds for its end, so that a short command needs one write of the status.
//
// # Processes
//
// Processes are in package sandbox, which knows no status. Package inputs computes environments and files of volumes,
// package memfs has the file systems, package shell executes commands, and package runtime is the contract between them
// and with the streams. A run that has ended stays in the sandbox until its pod is gone or two later runs have ended,
// so a write of the status that fails loses nothing.
//
// A script may say what an image contains (script.go): its entry point, and files, which a container has below its
// volumes. The shell executes such files as it executes files that a container has written, so a program of an image is
// a script. network.go finds the pod that an address, a Service or a name leads to, as kube-proxy and the DNS of a
// cluster would.
//
// # Stages
//
// kwok's stages are another source of a pod's next step ([Stages], implemented by package stages). The reconcilers of
// pods and nodes ask for it before they compute a step of their own, so identity, addresses, queue and timers are the
// same, and one writer changes a pod.
//
// # Addresses and leases
//
// Pod addresses are allocated in constant time from the podCIDR of the node, and from 10.128.0.0/9 when that is
// exhausted or the node has none. When this range is exhausted too, a condition and an event of the pod say so, and the
// pod waits for a released address. A renewal of a lease takes one write and no read.
package pods

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/controllers/internal/restore"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
	"flyball.dev/internal/responses"
)

// AddToManager adds the controllers of the pods and of their nodes. stages may be nil. awaitsCIDR, if not nil, reports whether a node
// without a podCIDR is about to get one, so that the pods on it wait.
func AddToManager(mgr manager.Manager, o Options, stages Stages, awaitsCIDR func(node types.UID) bool) error {
	if n := o.network(); !n.Addr().Is4() || n.Bits() > 30 {
		return fmt.Errorf("the pods' network %s is not an IPv4 network with room for a pod", n)
	}
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := podstate.IndexNodes(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "kubelet")
	r := &reconciler{
		client:     mgr.GetClient(),
		recorder:   recorder,
		options:    o,
		addresses:  newAddresses(o.network()),
		live:       mgr.GetAPIReader(),
		dependents: newDependents(),
		mounts:     newDependents(),
		nodes:      &servedNodes{nodes: map[string]servedNode{}},
		awaitsCIDR: awaitsCIDR,
		stages:     stages,
	}
	if err := r.addSandboxes(mgr); err != nil {
		return err
	}
	err := builder.ControllerManagedBy(mgr).
		Named("pods").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.Or(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return r.nodes.isResponsible(o.(*corev1.Pod))
		}), watches.OnlyDeletes))). // deletes release addresses
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(podstate.UserRequests(r.client, r.nodes.isResponsible)),
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
			}))).
		Watches(&corev1.PersistentVolumeClaim{}, handler.Funcs{DeleteFunc: r.claimDeleted}).
		Watches(&corev1.Pod{}, handler.Funcs{DeleteFunc: r.podDeleted}).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(configMapKind))).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf(secretKind))).
		WatchesRawSource(source.Func(func(_ context.Context,
			q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = q
			return nil
		})).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return err
	}
	if stages != nil {
		stages.OnChange(r.enqueueAll)
	}
	return addNodes(mgr, &o, stages)
}

// reconciler reconciles the pods on the nodes.
type reconciler struct {
	client     client.Client
	live       client.Reader
	recorder   record.EventRecorder
	options    Options
	addresses  *addresses
	restored   restore.Once // the addresses
	dependents *dependents
	mounts     *dependents // the objects in the volumes of pods with processes
	sandboxes  *sandbox.Sandboxes
	nodes      *servedNodes
	awaitsCIDR func(node types.UID) bool // nil if nodes get no CIDRs
	written    written
	stages     Stages // nil if there are none

	allocations allocations
	memories    memories

	mu       sync.Mutex
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request] // set before the first Reconcile
	deferred map[types.NamespacedName]bool                           // pods with resizes that have to wait
	removed  map[types.UID]bool                                      // pods that the controller deletes, until their event
}

// Reconcile executes the next step of one pod.
//
//upstream:pkg/kubelet.Kubelet.SyncPod
//upstream:pkg/kubelet.Kubelet.SyncTerminatingPod
//upstream:pkg/kubelet.Kubelet.SyncTerminatedPod
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.release(req)
			r.forget(req.NamespacedName)
			r.written.remove(req.NamespacedName)
			r.retryDeferred()
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.sandboxes.Remove(req.NamespacedName, pod.UID) // of another pod with the name
	r.sandboxes.Seen(pod)
	if !r.nodes.isResponsible(pod) || r.written.awaits(pod) {
		return reconcile.Result{}, nil
	}
	if r.noteFreed(req.NamespacedName, false) {
		r.retryDeferred()
	}
	ctx = withNode(ctx, pod.Spec.NodeName)
	node, _ := r.nodes.get(pod.Spec.NodeName)
	if r.awaits(pod, node) {
		return reconcile.Result{RequeueAfter: cidrRetry}, nil // the node that gets its CIDR causes another reconcile
	}
	ip, err := r.address(ctx, req, pod, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.expand(ctx, pod); err != nil {
		return reconcile.Result{}, err
	}
	if played, after, err := r.play(ctx, pod, Addresses{Host: node.address, Pod: ip}); played || err != nil {
		return requeue.After(after, err)
	}
	given, err := r.provide(ctx, pod, ip)
	given.hostIP = node.address
	if err != nil {
		return reconcile.Result{}, err
	}
	s, err := r.plan(ctx, given)
	if err == nil {
		err = r.execute(ctx, pod, &s)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.noteDeferral(req.NamespacedName, given.deferred != "")
	if given.deferred != "" && (s.after == 0 || s.after > resizeRetry) {
		s.after = resizeRetry
	}
	if given.polls && (s.after == 0 || s.after > volumeRetry) {
		s.after = volumeRetry
	}
	return reconcile.Result{RequeueAfter: s.after}, nil
}

// cidrRetry is the time until a pod looks again whether its node still awaits a CIDR.
const cidrRetry = time.Second

// awaits reports whether a new pod waits for the CIDR of its node.
func (r *reconciler) awaits(pod *corev1.Pod, node servedNode) bool {
	return r.awaitsCIDR != nil && !node.assigned && pod.DeletionTimestamp == nil && pod.Status.PodIP == "" && !pod.Spec.HostNetwork &&
		node.address != "" && r.awaitsCIDR(node.uid)
}

// volumeRetry is the time until the objects in the volumes of a pod are read again, if a ClusterTrustBundle is missing or an update
// of the files has failed.
const volumeRetry = 5 * time.Second

// execute executes a step.
func (r *reconciler) execute(ctx context.Context, pod *corev1.Pod, s *step) (err error) {
	stopping := r.sandboxes.Stopping(pod.UID)
	recordEvents(r.recorder, pod, r.noteChanges(pod, s.changes))
	grace := gracePeriod(pod)
	if s.noGrace {
		grace = 0
	}
	for _, k := range s.stop {
		r.sandboxes.Stop(pod, k.container, k.number, grace)
	}
	var killing []containerEvent
	if !stopping {
		killing = endingEvents(pod, s.ending, s.killing)
	}
	for _, h := range s.hooks {
		r.sandboxes.StartPreStop(ctx, pod, podstate.Container(&pod.Spec, h.container), h.number, h.deadline)
	}
	if s.stopPod != nil {
		r.sandboxes.StopPod(pod, *s.stopPod, s.running)
		recordEvents(r.recorder, pod, killing)
		killing = nil
	}
	switch {
	case s.remove:
		r.expectRemoval(pod.UID)
		err = r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if err == nil {
			recordEvents(r.recorder, pod, killing)
		} else {
			r.removalExpected(pod.UID)
		}
		if apierrors.IsConflict(err) {
			err = nil // it is gone, and another one has its name
		}
	case s.status != nil:
		events, backOffs := killing, []containerEvent(nil)
		if s.ending == nil {
			events, backOffs = append(statusEvents(pod, s.status), killing...), backOffEvents(pod, s.status, s.waits)
		}
		r.noteStarts(pod, s.status)
		before, own := pod.ResourceVersion, *pod // hooks and processes that stop read the other one
		pod = &own
		pod.Status = *s.status
		if err = r.client.Status().Update(responses.VersionOnly(ctx), pod); err == nil {
			r.written.add(pod, before)
			r.noteFreed(client.ObjectKeyFromObject(pod), s.frees)
			recordEvents(r.recorder, pod, events)
			r.announce(pod)
			recordEvents(r.recorder, pod, backOffs) // after the events of the run that has ended
		}
	}
	if err == nil {
		r.noteWritten(pod, s.pulls, s.delays)
	}
	return err
}

// provide returns the provision of a pod with an address, and records events about volumes that cannot be mounted.
func (r *reconciler) provide(ctx context.Context, pod *corev1.Pod, ip string) (given provision, err error) {
	given = provision{ip: ip, mounted: true}
	if pod.DeletionTimestamp != nil || podstate.Finished(pod) {
		r.dependents.remove(client.ObjectKeyFromObject(pod))
		if podstate.Finished(pod) {
			r.allocations.forget(client.ObjectKeyFromObject(pod))
			r.mounts.remove(client.ObjectKeyFromObject(pod))
			r.noteEnd(pod)
		}
		given.granted = r.allocations.of(pod)
		return given, nil
	}
	mounted := wasMounted(pod)
	if !mounted {
		if given.mounted, err = r.claimsBound(ctx, pod); err != nil {
			return given, err
		}
	}
	if given.granted, given.deferred, err = r.allocate(ctx, pod); err != nil {
		return given, err
	}
	given.generation = r.allocations.generation(pod)
	u, err := r.resolve(ctx, pod, mounted)
	if err != nil {
		return given, err
	}
	given.config = u.config
	given.mounted, given.polls = given.mounted && len(u.mounts) == 0, u.polls
	if len(u.mounts) > 0 && r.dependents.report(client.ObjectKeyFromObject(pod), u.mounts) {
		for _, message := range u.mounts {
			r.recorder.Event(pod, corev1.EventTypeWarning, "FailedMount", message)
		}
	}
	return given, nil
}

// claimsBound reports whether all claims of a pod are bound, and the pod owns the claims of its ephemeral
// volumes.
//
//upstream:pkg/kubelet/volumemanager/populator.desiredStateOfWorldPopulator.getPVCExtractPV
func (r *reconciler) claimsBound(ctx context.Context, pod *corev1.Pod) (ok bool, err error) {
	ok = true
	err = podstate.UsedClaims(ctx, r.client, pod, func(used podstate.UsedClaim) bool {
		claim := used.Object
		ok = claim != nil && claim.Status.Phase == corev1.ClaimBound && (!used.Ephemeral || podstate.ForeignClaim(pod, claim) == nil)
		return ok
	})
	return ok, err
}

// address returns the address of a pod, or "" if none is free. The pod is then enqueued when an address is released. A
// terminated pod has released its address, but keeps it in its status.
func (r *reconciler) address(ctx context.Context, req reconcile.Request, pod *corev1.Pod, node servedNode) (string, error) {
	switch {
	case pod.Spec.HostNetwork:
		return node.address, nil
	case podstate.Finished(pod):
		r.release(req)
		return pod.Status.PodIP, nil
	case pod.DeletionTimestamp != nil:
		return pod.Status.PodIP, nil
	}
	if err := r.restored.Do(ctx, r.restoreAddresses); err != nil {
		return "", err
	}
	return r.addresses.allocate(req.NamespacedName, node.cidr), nil
}

// release releases the address of a pod, and enqueues a pod that waits for one.
func (r *reconciler) release(req reconcile.Request) {
	if waiting, ok := r.addresses.release(req.NamespacedName); ok {
		r.enqueue(waiting)
	}
}

// restoreAddresses allocates the addresses that pods have in their status.
func (r *reconciler) restoreAddresses(ctx context.Context) error {
	all, nodes := &corev1.PodList{}, &corev1.NodeList{}
	if err := errors.Join(r.client.List(ctx, all), r.client.List(ctx, nodes)); err != nil {
		return err
	}
	cidrs := map[string]netip.Prefix{}
	for i := range nodes.Items {
		cidrs[nodes.Items[i].Name] = podCIDR(&nodes.Items[i])
	}
	for i := range all.Items {
		if pod := &all.Items[i]; !pod.Spec.HostNetwork && !podstate.Finished(pod) {
			r.addresses.occupy(client.ObjectKeyFromObject(pod), pod.Status.PodIP, cidrs[pod.Spec.NodeName])
		}
	}
	return nil
}
