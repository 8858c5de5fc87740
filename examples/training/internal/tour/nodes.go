package tour

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/reconciles"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/internal/controller"
)

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
	if err := w.operator.Idle(ctx); err != nil {
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
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	for _, r := range w.Reconciles.Ended()[w.reconciles:] {
		if r.Object != key {
			return fmt.Errorf("%v was reconciled because of %v", r.Object, r.Causes)
		}
	}
	return nil
}

// readinessChanges returns a step in which a node becomes ready or not, and nothing is replaced.
func (w *world) readinessChanges(ready corev1.ConditionStatus) func(context.Context) error {
	return func(ctx context.Context) error {
		before, err := w.pods(ctx, w.onA)
		if err != nil {
			return err
		}
		if err := w.quiet(ctx); err != nil {
			return err
		}
		if err := w.setReady(ctx, nodeA, ready); err != nil {
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
	if err := w.cordon(ctx, nodeA); err != nil { // the operator may be faster than the taint of the lost node
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
	if err := w.cordon(ctx, nodeB); err != nil { // the operator may be faster than the cache of the scheduler
		return err
	}
	if err := w.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeB}}); err != nil {
		return err
	}
	if err := w.runOn(ctx, w.onB, "b2", 3); err != nil {
		return err
	}
	if err := w.onlyReconciled(ctx, w.onB); err != nil {
		return err
	}
	return w.cordon(ctx, "a2", "b2")
}

// cordon keeps new Pods from nodes, and waits until the scheduler knows it.
func (w *world) cordon(ctx context.Context, names ...string) error {
	for _, name := range names {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))
		if err := w.Client.Patch(ctx, node, patch); err != nil {
			return err
		}
	}
	return w.scheduled(ctx, "after-"+names[0])
}

// scheduled waits until the scheduler binds a Pod to a new node. The scheduler then knows all earlier changes of nodes.
func (w *world) scheduled(ctx context.Context, name string) error {
	if err := w.addNode(ctx, name, name); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name}}
	pod.Spec.NodeSelector = map[string]string{pool: name}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1.29"}}
	if err := w.Client.Create(ctx, pod); err != nil {
		return err
	}
	if err := await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
		if p.Spec.NodeName == "" {
			return "the Pod " + name + " is not scheduled"
		}
		return ""
	}); err != nil {
		return err
	}
	return errors.Join(w.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)),
		w.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}
