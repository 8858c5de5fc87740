// Package tour creates Pods with and without a sidecar, and checks them against the API.
package tour

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/sidecar/internal/webhook"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World) []example.Step {
	w := &world{World: shared}
	step := example.NewStep
	return []example.Step{
		step("the operator starts, and installs its webhook", w.begin),
		step("a Pod with the label is created: it has the sidecar and becomes ready", w.marked),
		step("a Pod without the label has none", w.unmarked),
		step("the Pods of a Deployment have it, and its template has not", w.deployment),
		step("a dry run shows the sidecar and creates nothing", w.dryRun),
		step("the Pod is changed: its containers stay", w.update),
		step("a Pod that has the sidecar already gets no second one", w.again),
		step("an invalid port is refused by the API server, with its field", w.invalid),
		step("the operator is stopped: Pods with the label are refused, others are not", w.stopped),
		step("it starts again: Pods with the label can be created", w.restarted),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	operator *example.Operator
}

// newPod returns a pod, with the label if marked is true.
func newPod(name string, marked bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name}}
	if marked {
		pod.Labels = map[string]string{webhook.InjectLabel: "true"}
	}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1.29"}}
	return pod
}

// sidecars returns the number of sidecars of a pod.
func sidecars(spec *corev1.PodSpec) int {
	n := 0
	for _, c := range spec.InitContainers {
		if c.Name == webhook.ContainerName {
			n++
		}
	}
	return n
}

// created creates a pod and checks how many sidecars it has.
func (w *world) created(ctx context.Context, pod *corev1.Pod, want int, opts ...client.CreateOption) error {
	if err := w.Client.Create(ctx, pod, opts...); err != nil {
		return err
	}
	if n := sidecars(&pod.Spec); n != want {
		return fmt.Errorf("the Pod %s has %d sidecars, want %d", pod.Name, n, want)
	}
	return nil
}

func (w *world) begin(ctx context.Context) (err error) {
	w.operator, err = w.Start(ctx)
	return err
}

func (w *world) marked(ctx context.Context) error {
	pod := newPod("marked", true)
	pod.Annotations = map[string]string{webhook.PortAnnotation: "15009"}
	if err := w.created(ctx, pod, 1); err != nil {
		return err
	}
	if port := pod.Spec.InitContainers[0].Ports[0].ContainerPort; port != 15009 {
		return fmt.Errorf("the sidecar listens on %d", port)
	}
	return await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "the Pod is not ready"
	})
}

func (w *world) unmarked(ctx context.Context) error {
	return w.created(ctx, newPod("unmarked", false), 0)
}

// deployment creates a Deployment. The webhook sees its pods, but not its template.
func (w *world) deployment(ctx context.Context) error {
	labels := map[string]string{"app": "shop", webhook.InjectLabel: "true"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "shop"}}
	d.Spec.Replicas = new(int32(2))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", true).Spec}
	if err := w.Client.Create(ctx, d); err != nil {
		return err
	}
	if err := await.Until(ctx, w.Client, &corev1.PodList{}, func(all []*corev1.Pod) string {
		with := 0
		for _, p := range all {
			with += sidecars(&p.Spec)
		}
		if len(all) != 2 || with != 2 {
			return fmt.Sprintf("%d Pods with %d sidecars, want 2", len(all), with)
		}
		return ""
	}, client.InNamespace(example.Namespace), client.MatchingLabels(labels)); err != nil {
		return err
	}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	if sidecars(&d.Spec.Template.Spec) != 0 {
		return errors.New("the template of the Deployment has been changed")
	}
	return nil
}

func (w *world) dryRun(ctx context.Context) error {
	pod := newPod("dry", true)
	if err := w.created(ctx, pod, 1, client.DryRunAll); err != nil {
		return err
	}
	return w.missing(ctx, pod)
}

// missing returns an error if a pod exists.
func (w *world) missing(ctx context.Context, pod *corev1.Pod) error {
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Pod %s exists: %v", pod.Name, err)
	}
	return nil
}

func (w *world) update(ctx context.Context) error {
	pod := newPod("unmarked", false)
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	before := client.MergeFrom(pod.DeepCopy())
	pod.Labels = map[string]string{webhook.InjectLabel: "true"}
	if err := w.Client.Patch(ctx, pod, before); err != nil {
		return err
	}
	if sidecars(&pod.Spec) != 0 {
		return errors.New("a Pod that exists got a sidecar")
	}
	return nil
}

func (w *world) again(ctx context.Context) error {
	preview := newPod("twin", true)
	if err := w.Client.Create(ctx, preview, client.DryRunAll); err != nil {
		return err
	}
	twin := newPod("twin", true)
	twin.Spec.InitContainers = preview.Spec.InitContainers
	twin.Spec.InitContainers[0].VolumeMounts = nil // of the volume with the token; the name of the volume is random
	return w.created(ctx, twin, 1)
}

func (w *world) invalid(ctx context.Context) error {
	pod := newPod("invalid", true)
	pod.Annotations = map[string]string{webhook.PortAnnotation: "http"}
	err := w.Client.Create(ctx, pod)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.annotations["+webhook.PortAnnotation+"]") {
		return fmt.Errorf("the API server answered %v", err)
	}
	return w.missing(ctx, pod)
}

func (w *world) stopped(ctx context.Context) error {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	pod := newPod("late", true)
	err := w.Client.Create(ctx, pod)
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		return fmt.Errorf("the API server answered %v", err)
	}
	if err := w.missing(ctx, pod); err != nil {
		return err
	}
	return w.created(ctx, newPod("independent", false), 0)
}

func (w *world) restarted(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	return w.created(ctx, newPod("late", true), 1)
}
