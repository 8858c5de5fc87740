package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/controllers/pods/shell"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// quick is how long a reconcile waits for the end of processes that it has started. A command that ends at once then needs
// one status, and no reconcile is left to make when the queue is idle.
const quick = 2 * time.Millisecond

// maxStarts bounds how often one reconcile starts processes: restarts, and the containers after init containers.
const maxStarts = 16

// stopTimeout is how long the end of the manager waits for processes that were killed.
const stopTimeout = 5 * time.Second

// addSandboxes makes the sandboxes, which end with the manager.
func (r *reconciler) addSandboxes(mgr manager.Manager) error {
	if r.options.Shell == nil {
		o := shell.Options{Find: func(p *runtime.Process) runtime.Handler { return r.options.Handlers.Find(p, nil) }}
		if r.options.Handlers != nil {
			o.Listen, o.Dial = r.listen, r.dial
		}
		r.options.Shell = shell.New(o)
	}
	r.deferred, r.removed = map[types.NamespacedName]bool{}, map[types.UID]bool{}
	r.sandboxes = sandbox.New(sandbox.Options{
		Handlers: r.options.Handlers, Shell: r.options.Shell, Pod: r.pod, Reader: r.reader, Claim: r.claim,
		Script: r.options.scriptedLog, Image: r.options.image, Changed: r.enqueue, Record: r.recordContainer,
	})
	unwatch := func() {}
	if r.options.Handlers != nil {
		unwatch = r.options.Handlers.Watch(r.handlersChanged)
	}
	if r.options.OnRuntime != nil {
		r.options.OnRuntime(r.sandboxes)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		unwatch()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := r.sandboxes.Close(end); err != nil {
			return errors.New("a handler of a container does not return although its process was killed")
		}
		return nil
	}))
}

// enqueue enqueues a pod.
func (r *reconciler) enqueue(pod types.NamespacedName) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	if queue != nil {
		queue.Add(reconcile.Request{NamespacedName: pod})
	}
}

// handlersChanged enqueues the pods that a selector may select.
func (r *reconciler) handlersChanged(s runtime.Selector) {
	if s.Namespace != "" && s.Pod != "" {
		r.enqueue(types.NamespacedName{Namespace: s.Namespace, Name: s.Pod})
		return
	}
	r.enqueueAll()
}

// enqueueAll enqueues all pods.
func (r *reconciler) enqueueAll() {
	r.mu.Lock()
	started := r.queue != nil
	r.mu.Unlock()
	all := &corev1.PodList{}
	if !started || r.client.List(context.Background(), all) != nil {
		return // they are all enqueued when the controller starts
	}
	for i := range all.Items {
		if r.nodes.isResponsible(&all.Items[i]) {
			r.enqueue(client.ObjectKeyFromObject(&all.Items[i]))
		}
	}
}

// forget forgets a pod that does not exist.
func (r *reconciler) forget(key types.NamespacedName) {
	r.dependents.remove(key)
	r.mounts.remove(key)
	r.sandboxes.Remove(key, "")
	r.allocations.forget(key)
	if r.stages != nil {
		r.stages.Forget(&corev1.Pod{}, key)
	}
	r.memories.forget(key)
	r.noteDeferral(key, false)
}

// plan returns the next step of a pod. It starts the processes of the step, until none is left to start.
func (r *reconciler) plan(ctx context.Context, given provision) (step, error) {
	pod := given.granted
	r.observe(ctx, pod, &given)
	for range maxStarts {
		s := next(pod, given, &r.options, time.Now())
		if len(s.start) == 0 {
			return s, nil
		}
		addressed := *pod
		if s.status != nil {
			addressed.Status = *s.status
		}
		for _, k := range s.start {
			if err := r.start(ctx, &addressed, k, &given); err != nil {
				return step{}, err
			}
		}
		r.announce(pod)
		r.sandboxes.Await(ctx, pod.UID, quick)
		given.runs = r.sandboxes.Runs(pod.UID)
	}
	s := next(pod, given, &r.options, time.Now())
	s.after = time.Millisecond
	return s, nil
}

// announce tells the processes of a pod which starts have their events.
func (r *reconciler) announce(pod *corev1.Pod) {
	if r.sandboxes.Runs(pod.UID) == nil {
		return
	}
	for spec, status := range statusesOf(pod, &pod.Status) {
		shown := status.RestartCount
		if status.State.Waiting != nil && !crashed(status) && !postStartFailed(status) {
			shown-- // the status does not show the last start yet
		}
		r.sandboxes.Announce(pod.UID, spec.Name, shown)
	}
}

// observe adds the state of the script and the processes of a pod.
func (r *reconciler) observe(ctx context.Context, pod *corev1.Pod, given *provision) {
	given.script, given.invalid = r.options.scriptOf(pod)
	for c := range podstate.Containers(&pod.Spec) {
		if state, ok := r.sandboxes.PreStop(pod, c); ok {
			if given.preStops == nil {
				given.preStops = map[string]sandbox.PreStop{}
			}
			given.preStops[c.Name] = state
		}
		var by executor
		switch r.sandboxes.Executes(pod, c) {
		case sandbox.ByHandler:
			by = handlers
		case sandbox.ByShell:
			by = commands
		default:
			continue
		}
		if given.executed == nil {
			given.executed = map[string]executor{}
		}
		given.executed[c.Name] = by
	}
	given.runs = r.sandboxes.Runs(pod.UID)
	m := r.memories.of(pod)
	given.started, given.stopping, given.pulls, given.delays = m.starts, m.stops, m.pulls, m.delays
	key := client.ObjectKeyFromObject(pod)
	if err := r.sandboxes.Update(ctx, pod, r.noteStale(key, false)); err != nil && !apierrors.IsNotFound(err) {
		// As with kubelet, the files of the volume stay as they are, and the pod goes on: it may be about to end.
		r.noteStale(key, true)
		r.mu.Lock()
		queue := r.queue
		r.mu.Unlock()
		if queue != nil {
			queue.AddAfter(reconcile.Request{NamespacedName: key}, volumeRetry)
		}
	}
}

// start starts a process. If the container cannot be made, the provision says why.
func (r *reconciler) start(ctx context.Context, pod *corev1.Pod, k runKey, given *provision) error {
	c := podstate.Container(&pod.Spec, k.container)
	if r.sandboxes.Runs(pod.UID) == nil {
		for i := range pod.Spec.Volumes {
			for _, ref := range volumeReferences(&pod.Spec.Volumes[i]) {
				r.mounts.add(client.ObjectKeyFromObject(pod), ref)
			}
		}
	}
	err := r.sandboxes.Start(ctx, pod, c, k.number)
	var invalid *sandbox.ConfigError
	if !errors.As(err, &invalid) {
		return err
	}
	if invalid.Volume != "" {
		r.recorder.Event(pod, corev1.EventTypeWarning, "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", invalid.Volume, invalid.Err))
		return err // it is tried again
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsNotFound(err) {
		return err // the API server did not answer
	}
	config := map[string]string{k.container: invalid.Error()}
	for name, message := range given.config {
		config[name] = message
	}
	given.config = config
	return nil
}

// recordContainer records an event about a container.
func (r *reconciler) recordContainer(pod *corev1.Pod, c *corev1.Container, typ, reason, message string) {
	recordEvents(r.recorder, pod, []containerEvent{{fieldPath(pod, c.Name), typ, reason, message}})
}

// usersOf returns a [handler.MapFunc] that maps a ConfigMap or Secret to the pods that wait for it or have mounted it.
func (r *reconciler) usersOf(kind string) handler.MapFunc {
	waiting, mounted := r.dependents.requests(kind), r.mounts.requests(kind)
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		users := mounted(ctx, o)
		for _, user := range users {
			r.noteStale(user.NamespacedName, true)
		}
		return append(waiting(ctx, o), users...)
	}
}

// claimDeleted forgets the files of a claim.
func (r *reconciler) claimDeleted(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	r.sandboxes.RemoveClaim(e.Object.GetUID())
}

// podDeleted records the events Killing of a pod that a client has deleted by force. Stages have their own events.
//
//upstream:pkg/kubelet.Kubelet.HandlePodRemoves
func (r *reconciler) podDeleted(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	pod := e.Object.(*corev1.Pod)
	if r.removalExpected(pod.UID) || !r.nodes.isResponsible(pod) || podstate.Finished(pod) || r.stages != nil && !r.scripted(pod) {
		return
	}
	var running []string
	for spec, status := range statusesOf(pod, &pod.Status) {
		if status.State.Running != nil {
			running = append(running, spec.Name)
		}
	}
	recordEvents(r.recorder, pod, killingEvents(pod, running))
}

// expectRemoval notes that the controller deletes a pod.
func (r *reconciler) expectRemoval(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed[pod] = true
}

// removalExpected reports whether the controller deletes a pod, and forgets it.
func (r *reconciler) removalExpected(pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	expected := r.removed[pod]
	delete(r.removed, pod)
	return expected
}

// pod returns a pod on the node as the API server has it: a client may have seen a later status than the cache.
func (r *reconciler) pod(ctx context.Context, ref runtime.PodRef) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := r.live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, pod); err != nil {
		return nil, err
	}
	if !r.nodes.isResponsible(pod) || ref.UID != "" && ref.UID != pod.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), ref.Name)
	}
	return pod, nil
}

// claim returns the UID of a claim.
func (r *reconciler) claim(ctx context.Context, namespace, name string) (types.UID, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, claim)
	return claim.UID, err
}

// reader returns the reader of the objects that a pod refers to.
func (r *reconciler) reader(ctx context.Context, pod *corev1.Pod) inputs.Reader {
	return &objectReader{ctx: ctx, r: r, pod: pod}
}

// objectReader reads the objects that a pod refers to.
type objectReader struct {
	ctx context.Context
	r   *reconciler
	pod *corev1.Pod
}

func (o *objectReader) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.pod.Namespace, Name: name}
}

func (o *objectReader) ConfigMap(name string) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	return m, o.r.live.Get(o.ctx, o.key(name), m)
}

func (o *objectReader) Secret(name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	return s, o.r.live.Get(o.ctx, o.key(name), s)
}

func (o *objectReader) Services() ([]corev1.Service, error) {
	all := &corev1.ServiceList{}
	if err := o.r.client.List(o.ctx, all, client.InNamespace(o.pod.Namespace)); err != nil {
		return nil, err
	}
	master := &corev1.Service{}
	err := o.r.client.Get(o.ctx, types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}, master)
	if err == nil {
		all.Items = append(all.Items, *master)
	}
	return all.Items, client.IgnoreNotFound(err)
}

// Token requests a token that is bound to the pod.
//
//upstream:pkg/volume/projected.projectedVolumeMounter.collectData
func (o *objectReader) Token(p *corev1.ServiceAccountTokenProjection) ([]byte, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(ptr.Deref(p.ExpirationSeconds, 3600)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: o.pod.Name, UID: o.pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: o.pod.Namespace, Name: o.pod.Spec.ServiceAccountName}}
	if err := o.r.client.SubResource("token").Create(o.ctx, account, request); err != nil {
		return nil, fmt.Errorf("failed to fetch token: %w", err)
	}
	return []byte(request.Status.Token), nil
}

func (o *objectReader) TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error) {
	b := &certificatesv1.ClusterTrustBundle{}
	return b, o.r.live.Get(o.ctx, types.NamespacedName{Name: name}, b)
}

func (o *objectReader) TrustBundles(signer string, selector labels.Selector) ([]certificatesv1.ClusterTrustBundle, error) {
	if labels.MatchesNothing(selector) {
		return nil, nil // the request would select all
	}
	all := &certificatesv1.ClusterTrustBundleList{}
	err := o.r.live.List(o.ctx, all, client.MatchingLabelsSelector{Selector: selector}, client.MatchingFields{"spec.signerName": signer})
	return all.Items, err
}

func (o *objectReader) File(string, string) ([]byte, error) { return nil, errors.ErrUnsupported }

func (o *objectReader) Allocatable() corev1.ResourceList {
	node := &corev1.Node{}
	if err := o.r.client.Get(o.ctx, types.NamespacedName{Name: o.pod.Spec.NodeName}, node); err != nil {
		return nil
	}
	return node.Status.Allocatable
}
