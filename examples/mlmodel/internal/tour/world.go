package tour

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// The namespace of the scenario and the name of its MLModelDeployment.
const (
	namespace = example.Namespace
	name      = "sentiment"
)

var key = client.ObjectKey{Namespace: namespace, Name: name}

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	operator *example.Operator
}

// read reads the MLModelDeployment from the API server.
func (w *world) read(ctx context.Context) (*mlv1.MLModelDeployment, error) {
	model := &mlv1.MLModelDeployment{}
	return model, w.c.Get(ctx, key, model)
}

// change patches the MLModelDeployment and returns it as it is then.
func (w *world) change(ctx context.Context, change func(*mlv1.MLModelDeployment)) (*mlv1.MLModelDeployment, error) {
	model, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	before := client.MergeFrom(model.DeepCopy())
	change(model)
	return model, w.c.Patch(ctx, model, before)
}

// converged waits until the Deployment, the pods and the status are as the spec of the
// MLModelDeployment.
func (w *world) converged(ctx context.Context) error {
	model, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.deployment(ctx, model); err != nil {
		return err
	}
	if err := w.pods(ctx, model); err != nil {
		return err
	}
	if err := await.Object(ctx, w.c, model, func(m *mlv1.MLModelDeployment) string {
		ready := meta.FindStatusCondition(m.Status.Conditions, mlv1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != m.Generation ||
			m.Status.ObservedGeneration != m.Generation || m.Status.ReadyReplicas != *m.Spec.Replicas {
			return fmt.Sprintf("the MLModelDeployment is not ready: %+v", m.Status)
		}
		return ""
	}); err != nil {
		return err
	}
	if want := "http://sentiment.tour.svc"; model.Status.URL != want {
		return fmt.Errorf("the URL is %s, want %s", model.Status.URL, want)
	}
	return w.quiet(ctx, 0)
}

// deployment waits until the Deployment is as the spec wants it.
func (w *world) deployment(ctx context.Context, model *mlv1.MLModelDeployment) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return await.Object(ctx, w.c, d, func(d *appsv1.Deployment) string {
		if *d.Spec.Replicas != *model.Spec.Replicas || !serves(&d.Spec.Template.Spec, model) {
			return fmt.Sprintf("the Deployment is not as it should be: %+v", d.Spec)
		}
		return ""
	})
}

// pods waits until the pods are those that the spec wants, all ready, and no others.
func (w *world) pods(ctx context.Context, model *mlv1.MLModelDeployment) error {
	return await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		matching := 0
		for _, p := range all {
			if p.DeletionTimestamp == nil && isReady(p) && serves(&p.Spec, model) {
				matching++
			}
		}
		if want := int(*model.Spec.Replicas); matching != want || len(all) != want {
			return fmt.Sprintf("%d Pods, of which %d are ready with the right model, want %d", len(all), matching, want)
		}
		return ""
	}, ofModel...)
}

// quiet waits until the operator has nothing more to do: after the first n reconciles, those have
// ended that were caused by the last change of the MLModelDeployment, the Deployment and the
// Service.
func (w *world) quiet(ctx context.Context, n int) error {
	for _, o := range []client.Object{&mlv1.MLModelDeployment{}, &appsv1.Deployment{}, &corev1.Service{}} {
		if err := w.c.Get(ctx, key, o); err != nil {
			return err
		}
		if err := w.reconciled(ctx, n, o); err != nil {
			return err
		}
	}
	return nil
}

// reconciled waits until a reconcile after the first n has succeeded that was caused by the last
// write of an object.
func (w *world) reconciled(ctx context.Context, n int, o client.Object) error {
	return w.Reconciles.AwaitCausedBy(ctx, w.c, n, key, o)
}

// writes returns what the reconciles of the MLModelDeployment after the first n have written,
// except for its status.
func (w *world) writes(n int) []string {
	var all []string
	for _, r := range w.Reconciles.Ended()[n:] {
		if r.Object == key {
			all = append(all, slices.DeleteFunc(slices.Clone(r.Writes), func(request string) bool {
				return request == "PUT mlmodeldeployments/status"
			})...)
		}
	}
	return all
}

// expectWrites returns an error if the reconciles after the first n have written other than this,
// in any order.
func (w *world) expectWrites(n int, want ...string) error {
	got := slices.Sorted(slices.Values(w.writes(n)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the operator wrote %q, want %q", got, want)
	}
	return nil
}

// ofModel selects the dependents of the MLModelDeployment.
var ofModel = []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/instance": name}}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// serves reports whether a pod has the image and the model of the spec.
func serves(pod *corev1.PodSpec, model *mlv1.MLModelDeployment) bool {
	server := &pod.Containers[0]
	return server.Image == model.Spec.Image && server.Env[0].Value == model.Spec.Model
}
