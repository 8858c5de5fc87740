package tour

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// The requests with which the operator writes.
const (
	createDeployment = "POST deployments"
	updateDeployment = "PUT deployments"
	createService    = "POST services"
)

const manifest = `
apiVersion: ml.example.com/v1
kind: MLModelDeployment
metadata:
  name: sentiment
spec:
  model: s3://models/sentiment/3
  image: registry.example.com/model-server:2.1
`

// apply sends the manifest as kubectl apply --server-side does, while no operator runs.
func (w *world) apply(ctx context.Context) error {
	for _, wrong := range []struct{ name, model string }{{name, "sentiment"}, {"3rd", "s3://models/sentiment/3"}} {
		model := &mlv1.MLModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wrong.name}}
		model.Spec = mlv1.MLModelDeploymentSpec{Model: wrong.model, Image: "model-server"}
		if err := w.c.Create(ctx, model); !apierrors.IsInvalid(err) {
			return fmt.Errorf("%v was not rejected as invalid: %v", wrong, err)
		}
	}
	model := &mlv1.MLModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := client.RawPatch(types.ApplyYAMLPatchType, []byte(manifest))
	if err := w.c.Patch(ctx, model, patch, client.FieldOwner("kubectl")); err != nil {
		return err
	}
	if model.Spec.Replicas == nil || *model.Spec.Replicas != 1 {
		return fmt.Errorf("replicas were not defaulted to 1: %v", model.Spec.Replicas)
	}
	if model.Generation != 1 || model.Status.ObservedGeneration != 0 {
		return fmt.Errorf("the generation is %d, observed is %d", model.Generation, model.Status.ObservedGeneration)
	}
	if err := w.c.Get(ctx, key, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("there is a Deployment without an operator: %v", err)
	}
	_, err := w.change(ctx, func(m *mlv1.MLModelDeployment) { m.Spec.Replicas = new(int32(2)) })
	return err
}

func (w *world) create(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	model, err := w.read(ctx)
	if err != nil {
		return err
	}
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		o.SetNamespace(namespace)
		o.SetName(name)
		if err := w.controlled(ctx, o, model); err != nil {
			return err
		}
	}
	if err := w.quiet(ctx, 0); err != nil {
		return err
	}
	return w.expectWrites(0, createDeployment, createService)
}

// controlled waits until an object exists that the model controls.
func (w *world) controlled(ctx context.Context, o client.Object, model *mlv1.MLModelDeployment) error {
	return await.Object(ctx, w.c, o, func(o client.Object) string {
		if !metav1.IsControlledBy(o, model) {
			return fmt.Sprintf("%T is not controlled by the MLModelDeployment", o)
		}
		return ""
	})
}

// reconcileAgain causes two more reconciles, each by a change that the operator does not care
// about.
func (w *world) reconcileAgain(ctx context.Context) error {
	before, err := w.ResourceVersions(ctx, namespace)
	if err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	for _, look := range []string{"again", "and again"} {
		model, err := w.change(ctx, func(m *mlv1.MLModelDeployment) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, "look", look)
		})
		if err != nil {
			return err
		}
		before["mlmodeldeployments/"+name] = model.ResourceVersion // that was us
		if err := w.reconciled(ctx, n, model); err != nil {
			return err
		}
	}
	return errors.Join(w.wroteNothing(n), w.Unchanged(ctx, namespace, before))
}

// wroteNothing returns an error if a reconcile after the first n has written anything, the status
// included.
func (w *world) wroteNothing(n int) error {
	for _, r := range w.Reconciles.Ended()[n:] {
		if len(r.Writes) > 0 {
			return fmt.Errorf("a reconcile because of %q has written %q", r.Causes, r.Writes)
		}
	}
	return nil
}

func (w *world) restart(ctx context.Context) (err error) {
	before, err := w.ResourceVersions(ctx, namespace)
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	if err := w.quiet(ctx, n); err != nil {
		return err
	}
	return errors.Join(w.wroteNothing(n), w.Unchanged(ctx, namespace, before))
}

func (w *world) changeModel(ctx context.Context) error {
	n := len(w.Reconciles.Ended())
	_, err := w.change(ctx, func(m *mlv1.MLModelDeployment) { m.Spec.Model = "s3://models/sentiment/4" })
	if err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	return w.expectWrites(n, updateDeployment)
}

func (w *world) scale(ctx context.Context) error {
	n := len(w.Reconciles.Ended())
	model, err := w.read(ctx)
	if err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{}
	if err := w.c.SubResource("scale").Get(ctx, model, scale); err != nil {
		return err
	}
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 2 || scale.Status.Selector == "" {
		return fmt.Errorf("the scale is %+v", scale)
	}
	scale.Spec.Replicas = 3
	if err := w.c.SubResource("scale").Update(ctx, model, client.WithSubResourceBody(scale)); err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	return w.expectWrites(n, updateDeployment)
}

// drift changes three fields of the Deployment. The operator decides two of them.
func (w *world) drift(ctx context.Context) error {
	n := len(w.Reconciles.Ended())
	d := &appsv1.Deployment{}
	if err := w.c.Get(ctx, key, d); err != nil {
		return err
	}
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = new(int32(7))
	d.Spec.Template.Spec.Containers[0].Image = "intruder:1"
	d.Spec.MinReadySeconds = 1
	if err := w.c.Patch(ctx, d, before); err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	if err := w.c.Get(ctx, key, d); err != nil {
		return err
	}
	if d.Spec.MinReadySeconds != 1 {
		return errors.New("the operator has reset a field that it does not decide")
	}
	return w.expectWrites(n, updateDeployment)
}

func (w *world) deleteService(ctx context.Context) error {
	n := len(w.Reconciles.Ended())
	service := &corev1.Service{}
	if err := w.c.Get(ctx, key, service); err != nil {
		return err
	}
	if err := w.c.Delete(ctx, service); err != nil {
		return err
	}
	old := service.UID
	err := await.Until(ctx, w.c, &corev1.ServiceList{}, func(all []*corev1.Service) string {
		for _, s := range all {
			if s.Name == name && s.UID != old {
				return ""
			}
		}
		return "the Service was not created again"
	}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	return w.expectWrites(n, createService)
}

func (w *world) changeWhileStopped(ctx context.Context) (err error) {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	n := len(w.Reconciles.Ended())
	for i := range 20 {
		_, err := w.change(ctx, func(m *mlv1.MLModelDeployment) {
			m.Spec.Model = fmt.Sprintf("s3://models/sentiment/%d", 10+i)
			m.Spec.Replicas = new(int32(2 - i%2))
		})
		if err != nil {
			return err
		}
	}
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	return w.expectWrites(n, updateDeployment)
}

// brokenImage rolls out an image that is missing, and then one that exists.
func (w *world) brokenImage(ctx context.Context) error {
	model, err := w.change(ctx, func(m *mlv1.MLModelDeployment) {
		m.Spec.Image = "registry.example.com/model-server:404"
	})
	if err != nil {
		return err
	}
	if err := await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		for _, p := range all {
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Waiting != nil && s.State.Waiting.Reason == "ImagePullBackOff" {
					return ""
				}
			}
		}
		return "no image is reported as missing"
	}, ofModel...); err != nil {
		return err
	}
	if err := await.Object(ctx, w.c, model, func(m *mlv1.MLModelDeployment) string {
		ready := meta.FindStatusCondition(m.Status.Conditions, mlv1.ConditionReady)
		if ready.Status != metav1.ConditionFalse || ready.Reason != "RollingOut" ||
			m.Status.ObservedGeneration != m.Generation || m.Status.ReadyReplicas != 1 {
			return fmt.Sprintf("the status is %+v", m.Status)
		}
		return ""
	}); err != nil {
		return err
	}
	_, err = w.change(ctx, func(m *mlv1.MLModelDeployment) {
		m.Spec.Image = "registry.example.com/model-server:2.2"
	})
	if err != nil {
		return err
	}
	return w.converged(ctx)
}

// nameTaken creates a Service that is somebody else's, and then a model with its name.
func (w *world) nameTaken(ctx context.Context) error {
	const taken = "taken"
	other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: taken}}
	other.Spec.Ports = []corev1.ServicePort{{Port: 443}}
	if err := w.c.Create(ctx, other); err != nil {
		return err
	}
	model := &mlv1.MLModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: taken}}
	model.Spec = mlv1.MLModelDeploymentSpec{Model: "s3://models/other", Image: "model-server"}
	if err := w.c.Create(ctx, model); err != nil {
		return err
	}
	reason := func(ctx context.Context, want string) error {
		return await.Object(ctx, w.c, model, func(m *mlv1.MLModelDeployment) string {
			ready := meta.FindStatusCondition(m.Status.Conditions, mlv1.ConditionReady)
			if ready == nil || ready.Reason != want || ready.ObservedGeneration != m.Generation {
				return fmt.Sprintf("Ready is %+v, want the reason %s", ready, want)
			}
			return ""
		})
	}
	if err := reason(ctx, "NameTaken"); err != nil {
		return err
	}
	now := &corev1.Service{}
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(other), now); err != nil {
		return err
	}
	if now.ResourceVersion != other.ResourceVersion {
		return errors.New("the operator has changed another's Service")
	}
	if err := w.c.Delete(ctx, other); err != nil {
		return err
	}
	return errors.Join(w.lookAgain(ctx, model, reason), w.c.Delete(ctx, model))
}

// lookAgain makes the operator look at the name again, which it would do by itself within a minute. The operator may look before its
// cache has the deletion of the Service, so the user does not stop at one try.
func (w *world) lookAgain(ctx context.Context, model *mlv1.MLModelDeployment, reason func(context.Context, string) error) error {
	for try := 1; ; try++ {
		before := client.MergeFrom(model.DeepCopy())
		metav1.SetMetaDataAnnotation(&model.ObjectMeta, "look", fmt.Sprint(try))
		if err := w.c.Patch(ctx, model, before); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := reason(short, "AllServersReady")
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (w *world) delete(ctx context.Context) error {
	model, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, model); err != nil {
		return err
	}
	for _, o := range []client.Object{model, &appsv1.Deployment{}, &corev1.Service{}} {
		o.SetNamespace(namespace)
		o.SetName(name)
		if err := await.Gone(ctx, w.c, o); err != nil {
			return err
		}
	}
	return await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		if len(all) > 0 {
			return fmt.Sprintf("%d Pods are left", len(all))
		}
		return ""
	}, ofModel...)
}
