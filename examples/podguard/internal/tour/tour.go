// Package tour lets Pods use too much memory, and checks what becomes of them against the API.
package tour

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/podguard/internal/controller"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("the operator starts; a Deployment has 2 Pods with a limit of 200Mi", w.begin),
		step("a Pod uses 150Mi: nothing happens", w.below),
		step("it uses 300Mi: it is deleted with an event, and replaced", w.above),
		step("a Pod without the label uses 300Mi: it is not in the cache, and stays", w.unguarded),
		step(`the usage is "lots": an event says so, and the Pod stays`, w.invalid),
		step("a Pod that has finished used 300Mi: it uses nothing any more, and stays", w.finished),
		step("a Pod exceeds its limit while the operator is stopped: deleted when it starts", w.whileStopped),
		step("a Pod with a finalizer is deleted once, however often its usage is reported", w.terminating),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	operator *example.Operator
}

// labelsOf are the labels of the pods of the tour's Deployment.
var labelsOf = map[string]string{"app": "hungry", controller.GuardLabel: "true"}

// podSpec is the spec of every pod of the tour.
var podSpec = corev1.PodSpec{Containers: []corev1.Container{{
	Name: "app", Image: "nginx:1.29",
	Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("200Mi")},
	},
}}}

func (w *world) begin(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "hungry"}}
	d.Spec.Replicas = new(int32(2))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labelsOf}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf}, Spec: podSpec}
	if err := w.Client.Create(ctx, d); err != nil {
		return err
	}
	_, err = w.replicas(ctx)
	return err
}

// replicas waits until the Deployment has exactly 2 pods, all ready, and returns them.
func (w *world) replicas(ctx context.Context) (pods []*corev1.Pod, err error) {
	err = await.Until(ctx, w.Client, &corev1.PodList{}, func(all []*corev1.Pod) string {
		ready := 0
		for _, p := range all {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
					ready++
				}
			}
		}
		pods = all
		if len(all) != 2 || ready != 2 {
			return fmt.Sprintf("%d Pods, %d ready, want 2", len(all), ready)
		}
		return ""
	}, client.InNamespace(example.Namespace), client.MatchingLabels(labelsOf))
	return pods, err
}

// report reports the memory usage of a pod.
func (w *world) report(ctx context.Context, pod *corev1.Pod, usage string) error {
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, controller.UsageAnnotation, usage)
	return w.Client.Patch(ctx, pod, before)
}

// stays waits until the operator has seen all changes, and returns an error if the pod is deleted.
func (w *world) stays(ctx context.Context, pod *corev1.Pod) error {
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	now := &corev1.Pod{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
		return err
	}
	if now.UID != pod.UID || now.DeletionTimestamp != nil {
		return fmt.Errorf("the Pod %s is deleted", pod.Name)
	}
	return nil
}

// event waits for an event about a pod.
func (w *world) event(ctx context.Context, pod *corev1.Pod, reason, text string) error {
	return await.Event(ctx, w.Client, example.Namespace, func(e *corev1.Event) bool {
		return e.Reason == reason && e.InvolvedObject.UID == pod.UID && strings.Contains(e.Message, text)
	})
}

func (w *world) below(ctx context.Context) error {
	pods, err := w.replicas(ctx)
	if err != nil {
		return err
	}
	if err := w.report(ctx, pods[0], "150Mi"); err != nil {
		return err
	}
	return w.stays(ctx, pods[0])
}

func (w *world) above(ctx context.Context) error {
	pods, err := w.replicas(ctx)
	if err != nil {
		return err
	}
	if err := w.report(ctx, pods[0], "300Mi"); err != nil {
		return err
	}
	if err := w.replaced(ctx, pods[0]); err != nil {
		return err
	}
	return w.event(ctx, pods[0], "MemoryExceeded", "it uses 300Mi of memory, its limit is 200Mi")
}

// replaced waits until the pod is gone and another one is ready in its place.
func (w *world) replaced(ctx context.Context, pod *corev1.Pod) error {
	if err := await.Gone(ctx, w.Client, pod); err != nil {
		return err
	}
	_, err := w.replicas(ctx)
	return err
}

func (w *world) unguarded(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "free"}, Spec: podSpec}
	if err := w.Client.Create(ctx, pod); err != nil {
		return err
	}
	if err := w.report(ctx, pod, "300Mi"); err != nil {
		return err
	}
	if err := w.stays(ctx, pod); err != nil {
		return err
	}
	err := w.operator.Manager.GetCache().Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the cache of the operator has the Pod: %v", err)
	}
	return nil
}

func (w *world) invalid(ctx context.Context) error {
	pods, err := w.replicas(ctx)
	if err != nil {
		return err
	}
	if err := w.report(ctx, pods[0], "lots"); err != nil {
		return err
	}
	if err := w.event(ctx, pods[0], "InvalidMemoryUsage", `"lots" is not a quantity`); err != nil {
		return err
	}
	return w.stays(ctx, pods[0])
}

func (w *world) whileStopped(ctx context.Context) error {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	pods, err := w.replicas(ctx)
	if err != nil {
		return err
	}
	if err := w.report(ctx, pods[1], "201Mi"); err != nil {
		return err
	}
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	return w.replaced(ctx, pods[1])
}

// finished reports the usage of a pod after its containers have ended.
func (w *world) finished(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: example.Namespace, Name: "finished", Annotations: map[string]string{"flyball.dev/outcome": "Succeeded"},
		Labels: map[string]string{controller.GuardLabel: "true"},
	}, Spec: podSpec}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := w.Client.Create(ctx, pod); err != nil {
		return err
	}
	if err := await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
		if p.Status.Phase != corev1.PodSucceeded {
			return "the Pod has not succeeded"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.report(ctx, pod, "300Mi"); err != nil {
		return err
	}
	return w.stays(ctx, pod)
}

// terminating reports the usage of a pod again and again while it is being deleted.
func (w *world) terminating(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: example.Namespace, Name: "held", Finalizers: []string{"example.com/held"},
		Labels: map[string]string{controller.GuardLabel: "true"},
	}, Spec: podSpec}
	if err := w.Client.Create(ctx, pod); err != nil {
		return err
	}
	for _, usage := range []string{"300Mi", "301Mi", "302Mi"} {
		if err := w.report(ctx, pod, usage); err != nil {
			return err
		}
		if err := await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
			if p.DeletionTimestamp == nil {
				return "the Pod is not being deleted"
			}
			return ""
		}); err != nil {
			return err
		}
	}
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	if err := w.event(ctx, pod, "MemoryExceeded", "it uses 300Mi"); err != nil {
		return err
	}
	events := &corev1.EventList{}
	if err := w.Client.List(ctx, events, client.InNamespace(example.Namespace)); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == pod.UID && e.Reason == "MemoryExceeded" && !strings.Contains(e.Message, "300Mi") {
			return errors.New("the Pod was deleted again: " + e.Message)
		}
	}
	before := client.MergeFrom(pod.DeepCopy())
	pod.Finalizers = nil
	if err := w.Client.Patch(ctx, pod, before); err != nil {
		return err
	}
	return await.Gone(ctx, w.Client, pod)
}
