// Package tour trains models while workers fail and nodes are lost, and checks against the API what
// becomes of them. It plays the kubelet of nodes of its own. Crashes between any two writes are in
// the tests of the example.
package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/reconciles"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/internal/controller"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("a TrainingJob is created: 1 parameter server and 2 workers run, with names in DNS", w.create),
		step("the operator is restarted: nothing is written", w.restarted),
		step("a worker fails: it alone is replaced, and the restart counted", w.replaced),
		step("a worker is deleted while the operator is stopped: replaced and counted when it starts", w.deleted),
		step("a worker succeeds and its Pod is deleted: it stays succeeded", w.succeeded),
		step("the other one succeeds: complete, and the parameter server is stopped", w.complete),
		step("with RestartAll, a worker fails: all start again, counted once", w.restartAll),
		step("it fails more often than the backoff limit: failed, and nothing runs", w.backoffLimit),
		step("two TrainingJobs run on nodes of their own", w.onNodes),
		step("a node becomes not ready: only the TrainingJob on it is reconciled, and waits", w.notReady),
		step("the node is ready again in time: nothing is replaced", w.readyAgain),
		step("it is not ready for too long: its Pods are replaced on another node", w.nodeLost),
		step("the other node is deleted: only the other TrainingJob is reconciled, its Pods replaced", w.nodeDeleted),
		step("a Pod of somebody else has the name: left alone, with an event", w.nameTaken),
		step("another number of workers, or a name that cannot be a Service's, is rejected", w.rejected),
		step("the TrainingJob is deleted: its Pods and its Service are garbage collected", w.collected),
	}
}

// The nodes, and the label by which TrainingJobs select them.
const (
	nodeA, nodeB = "a", "b"
	pool         = "pool"
)

// world is the state that the steps share.
type world struct {
	*example.World
	operator   *example.Operator
	job        *trainingv1.TrainingJob // with ReplaceFailed
	all        *trainingv1.TrainingJob // with RestartAll
	onA, onB   *trainingv1.TrainingJob
	reconciles int // that had ended at the start of a step
}

// newJob returns a TrainingJob with 2 workers.
func newJob(name string, policy trainingv1.RestartPolicy) *trainingv1.TrainingJob {
	return &trainingv1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec: trainingv1.TrainingJobSpec{
			Image: "example.com/train:1", Workers: 2, ParameterServers: 1, RestartPolicy: policy, BackoffLimit: 3,
			NodeGracePeriod: metav1.Duration{Duration: time.Hour},
		},
	}
}

// status waits until a condition of the status is true. The condition returns "" if it is.
func (w *world) status(ctx context.Context, job *trainingv1.TrainingJob,
	condition func(*trainingv1.TrainingJobStatus) string) error {
	return await.Object(ctx, w.Client, job, func(j *trainingv1.TrainingJob) string {
		if missing := condition(&j.Status); missing != "" {
			return fmt.Sprintf("%s, the status is %+v", missing, j.Status)
		}
		return ""
	})
}

// running waits until all Pods of a TrainingJob run after so many restarts, and returns them by name.
func (w *world) running(ctx context.Context, job *trainingv1.TrainingJob, restarts int32) (map[string]*corev1.Pod, error) {
	err := w.status(ctx, job, func(s *trainingv1.TrainingJobStatus) string {
		if s.Restarts != restarts || !meta.IsStatusConditionTrue(s.Conditions, trainingv1.ConditionRunning) {
			return fmt.Sprintf("it does not run after %d restarts", restarts)
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	return w.pods(ctx, job)
}

// pods returns the Pods of a TrainingJob by name.
func (w *world) pods(ctx context.Context, job *trainingv1.TrainingJob) (map[string]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := w.Client.List(ctx, list, client.InNamespace(example.Namespace),
		client.MatchingLabels{controller.JobLabel: job.Name}); err != nil {
		return nil, err
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, nil
}

// sameExcept checks that exactly the named Pods have been replaced.
func sameExcept(before, after map[string]*corev1.Pod, names ...string) error {
	if len(before) != len(after) {
		return fmt.Errorf("there are %d Pods, and were %d", len(after), len(before))
	}
	for name, pod := range before {
		if replaced := after[name] == nil || after[name].UID != pod.UID; replaced != slices.Contains(names, name) {
			return fmt.Errorf("the Pod %s is replaced: %t", name, replaced)
		}
	}
	return nil
}

// end makes the container of a Pod end with an outcome.
func (w *world) end(ctx context.Context, pod *corev1.Pod, outcome string) error {
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "flyball.dev/outcome", outcome)
	return w.Client.Patch(ctx, pod, before)
}

// stop stops the operator.
func (w *world) stop() error {
	o := w.operator
	w.operator = nil
	return o.Stop()
}

// start starts the operator, and waits until it has nothing to do.
func (w *world) start(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	return w.idle(ctx)
}

// idle waits until the operator has nothing to do.
func (w *world) idle(ctx context.Context) error {
	_, err := manager.WaitIdle(ctx, w.operator.Manager)
	return err
}

// create creates a TrainingJob, and checks what gives its Pods names in DNS.
func (w *world) create(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	w.job = newJob("one", trainingv1.ReplaceFailed)
	if err := w.Client.Create(ctx, w.job); err != nil {
		return err
	}
	pods, err := w.running(ctx, w.job, 0)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(pods))
	if want := []string{"one-ps-0", "one-worker-0", "one-worker-1"}; !slices.Equal(names, want) {
		return fmt.Errorf("there are the Pods %v, want %v", names, want)
	}
	service := &corev1.Service{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.job), service); err != nil {
		return err
	}
	for _, pod := range pods {
		if service.Spec.ClusterIP != corev1.ClusterIPNone || pod.Spec.Subdomain != service.Name ||
			pod.Spec.Hostname != pod.Name || pod.Labels[controller.JobLabel] != service.Spec.Selector[controller.JobLabel] {
			return fmt.Errorf("the Pod %s has no name in DNS: %v, %v", pod.Name, pod, service)
		}
	}
	return nil
}

func (w *world) restarted(ctx context.Context) error {
	if err := w.idle(ctx); err != nil {
		return err
	}
	before, err := w.ResourceVersions(ctx, example.Namespace)
	if err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	return w.Unchanged(ctx, example.Namespace, before)
}

func (w *world) replaced(ctx context.Context) error {
	before, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, before["one-worker-0"], "Failed"); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 1)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "one-worker-0")
}

func (w *world) deleted(ctx context.Context) error {
	before, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, before["one-worker-1"]); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, before["one-worker-1"]); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 2)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "one-worker-1")
}

// succeeded lets a worker succeed, and deletes its Pod, which nothing shows then but the status.
func (w *world) succeeded(ctx context.Context) error {
	pods, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["one-worker-0"], "Succeeded"); err != nil {
		return err
	}
	if err := w.status(ctx, w.job, func(s *trainingv1.TrainingJobStatus) string {
		if s.Succeeded != 1 || s.Active != 2 {
			return "no worker has succeeded"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, pods["one-worker-0"]); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, pods["one-worker-0"]); err != nil {
		return err
	}
	if err := w.idle(ctx); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 2)
	if err != nil {
		return err
	}
	delete(pods, "one-worker-0")
	return sameExcept(pods, after)
}

func (w *world) complete(ctx context.Context) error {
	pods, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["one-worker-1"], "Succeeded"); err != nil {
		return err
	}
	if err := w.status(ctx, w.job, func(s *trainingv1.TrainingJobStatus) string {
		if !meta.IsStatusConditionTrue(s.Conditions, trainingv1.ConditionComplete) || s.Succeeded != 2 || s.Active != 0 {
			return "it is not complete"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, pods["one-ps-0"]); err != nil {
		return err
	}
	return w.Client.Get(ctx, client.ObjectKeyFromObject(pods["one-worker-1"]), &corev1.Pod{})
}

func (w *world) restartAll(ctx context.Context) error {
	w.all = newJob("all", trainingv1.RestartAll)
	w.all.Spec.BackoffLimit = 1
	if err := w.Client.Create(ctx, w.all); err != nil {
		return err
	}
	before, err := w.running(ctx, w.all, 0)
	if err != nil {
		return err
	}
	if err := w.end(ctx, before["all-worker-0"], "Failed"); err != nil {
		return err
	}
	after, err := w.running(ctx, w.all, 1)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "all-ps-0", "all-worker-0", "all-worker-1")
}

func (w *world) backoffLimit(ctx context.Context) error {
	pods, err := w.pods(ctx, w.all)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["all-worker-1"], "Failed"); err != nil {
		return err
	}
	if err := w.status(ctx, w.all, func(s *trainingv1.TrainingJobStatus) string {
		c := meta.FindStatusCondition(s.Conditions, trainingv1.ConditionFailed)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != controller.ReasonBackoffLimit || s.Restarts != 1 {
			return "it has not failed"
		}
		return ""
	}); err != nil {
		return err
	}
	for _, name := range []string{"all-ps-0", "all-worker-0"} {
		if err := await.Gone(ctx, w.Client, pods[name]); err != nil {
			return err
		}
	}
	// The one that has failed stays, for its log.
	return w.Client.Get(ctx, client.ObjectKeyFromObject(pods["all-worker-1"]), &corev1.Pod{})
}

// onNode returns a TrainingJob for the nodes of a pool.
func onNode(name string) *trainingv1.TrainingJob {
	job := newJob("on-"+name, trainingv1.ReplaceFailed)
	job.Spec.NodeSelector = map[string]string{pool: name}
	return job
}

// addNode registers a node of a pool.
func (w *world) addNode(ctx context.Context, name, ofPool string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pool: ofPool}}}
	if err := w.Client.Create(ctx, node); err != nil {
		return err
	}
	return w.setReady(ctx, name, corev1.ConditionTrue)
}

// setReady sets the condition Ready of a node.
func (w *world) setReady(ctx context.Context, name string, ready corev1.ConditionStatus) error {
	node := &corev1.Node{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	before := client.MergeFrom(node.DeepCopy())
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}
	return w.Client.Status().Patch(ctx, node, before)
}

// runOn waits until all Pods of a TrainingJob are bound to a node and pending there, starts them as
// its kubelet, and waits until the TrainingJob is running.
func (w *world) runOn(ctx context.Context, job *trainingv1.TrainingJob, node string, restarts int32) error {
	var bound []*corev1.Pod
	err := await.Until(ctx, w.Client, &corev1.PodList{}, func(all []*corev1.Pod) string {
		bound = nil
		for _, p := range all {
			if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
				bound = append(bound, p.DeepCopy())
			}
		}
		if len(bound) != 3 {
			return fmt.Sprintf("%d Pods of %s are on the node %s", len(bound), job.Name, node)
		}
		return ""
	}, client.InNamespace(example.Namespace), client.MatchingLabels{controller.JobLabel: job.Name})
	if err != nil {
		return err
	}
	for _, pod := range bound {
		before := client.MergeFrom(pod.DeepCopy())
		pod.Status.Phase = corev1.PodRunning
		if err := w.Client.Status().Patch(ctx, pod, before); err != nil {
			return err
		}
	}
	_, err = w.running(ctx, job, restarts)
	return err
}

func (w *world) onNodes(ctx context.Context) error {
	w.onA, w.onB = onNode(nodeA), onNode(nodeB)
	for _, job := range []*trainingv1.TrainingJob{w.onA, w.onB} {
		node := job.Spec.NodeSelector[pool]
		if err := w.addNode(ctx, node, node); err != nil {
			return err
		}
		if err := w.Client.Create(ctx, job); err != nil {
			return err
		}
		if err := w.runOn(ctx, job, node, 0); err != nil {
			return err
		}
	}
	return nil
}

// quiet waits until the operator has nothing to do, and remembers how many reconciles have ended.
func (w *world) quiet(ctx context.Context) error {
	if err := w.idle(ctx); err != nil {
		return err
	}
	w.reconciles = len(w.Reconciles.Ended())
	return nil
}

// onlyReconciled waits until a TrainingJob has been reconciled since [world.quiet] and the operator
// has nothing to do, and checks that no other one was.
func (w *world) onlyReconciled(ctx context.Context, job *trainingv1.TrainingJob) error {
	key := client.ObjectKeyFromObject(job)
	if err := w.Reconciles.Await(ctx, func(all []reconciles.Reconcile) string {
		if len(all) == w.reconciles {
			return "nothing was reconciled"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.idle(ctx); err != nil {
		return err
	}
	for _, r := range w.Reconciles.Ended()[w.reconciles:] {
		if r.Object != key {
			return fmt.Errorf("%v was reconciled because of %v", r.Object, r.Causes)
		}
	}
	return nil
}

func (w *world) notReady(ctx context.Context) error {
	before, err := w.pods(ctx, w.onA)
	if err != nil {
		return err
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	if err := w.setReady(ctx, nodeA, corev1.ConditionUnknown); err != nil {
		return err
	}
	if err := w.onlyReconciled(ctx, w.onA); err != nil {
		return err
	}
	after, err := w.running(ctx, w.onA, 0)
	if err != nil {
		return err
	}
	return sameExcept(before, after)
}

func (w *world) readyAgain(ctx context.Context) error {
	before, err := w.pods(ctx, w.onA)
	if err != nil {
		return err
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	if err := w.setReady(ctx, nodeA, corev1.ConditionTrue); err != nil {
		return err
	}
	if err := w.onlyReconciled(ctx, w.onA); err != nil {
		return err
	}
	after, err := w.running(ctx, w.onA, 0)
	if err != nil {
		return err
	}
	return sameExcept(before, after)
}

func (w *world) nodeLost(ctx context.Context) error {
	if err := w.addNode(ctx, "a2", nodeA); err != nil {
		return err
	}
	patch := client.MergeFrom(w.onA.DeepCopy())
	w.onA.Spec.NodeGracePeriod.Duration = 50 * time.Millisecond
	if err := w.Client.Patch(ctx, w.onA, patch); err != nil {
		return err
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	if err := w.setReady(ctx, nodeA, corev1.ConditionUnknown); err != nil {
		return err
	}
	if err := w.runOn(ctx, w.onA, "a2", 3); err != nil {
		return err
	}
	return w.onlyReconciled(ctx, w.onA)
}

func (w *world) nodeDeleted(ctx context.Context) error {
	if err := w.addNode(ctx, "b2", nodeB); err != nil {
		return err
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeB}}); err != nil {
		return err
	}
	if err := w.runOn(ctx, w.onB, "b2", 3); err != nil {
		return err
	}
	return w.onlyReconciled(ctx, w.onB)
}

// nameTaken creates a Pod with the name of a worker, which is not in the cache of the operator.
func (w *world) nameTaken(ctx context.Context) error {
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "theirs-worker-0"}}
	theirs.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1.29"}}
	job := newJob("theirs", trainingv1.ReplaceFailed)
	for _, obj := range []client.Object{theirs, job} {
		if err := w.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	err := await.Until(ctx, w.Client, &corev1.EventList{}, func(all []*corev1.Event) string {
		for _, e := range all {
			if e.Reason == "NameTaken" && e.InvolvedObject.UID == job.UID {
				return ""
			}
		}
		return "there is no event"
	}, client.InNamespace(example.Namespace))
	if err != nil {
		return err
	}
	now := &corev1.Pod{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(theirs), now); err != nil {
		return err
	}
	if now.UID != theirs.UID || len(now.OwnerReferences) > 0 {
		return fmt.Errorf("the Pod was changed: %v", now)
	}
	return nil
}

func (w *world) rejected(ctx context.Context) error {
	patch := client.MergeFrom(w.onB.DeepCopy())
	more := w.onB.DeepCopy()
	more.Spec.Workers = 4
	if err := w.Client.Patch(ctx, more, patch); !apierrors.IsInvalid(err) {
		return fmt.Errorf("to the number of workers, the API server answered %v", err)
	}
	for _, name := range []string{"1st", "a.b", strings.Repeat("a", 51)} {
		if err := w.Client.Create(ctx, newJob(name, trainingv1.ReplaceFailed)); !apierrors.IsInvalid(err) {
			return fmt.Errorf("to the name %s, the API server answered %v", name, err)
		}
	}
	return nil
}

func (w *world) collected(ctx context.Context) error {
	pods, err := w.pods(ctx, w.onA)
	if err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, w.onA); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
			if p.DeletionTimestamp == nil {
				return "the Pod is not being deleted"
			}
			return ""
		}); err != nil {
			return err
		}
		// The kubelet of its node confirms the end.
		if err := w.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: w.onA.Name}}
	return await.Gone(ctx, w.Client, service)
}
