package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	patchesv1 "flyball.dev/examples/patches/api/v1"
	"flyball.dev/examples/patches/internal/write"
)

// user is the field manager of the owner of the Deployments.
const user = client.FieldOwner("user")

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	operator *example.Operator
}

// start starts the operator.
func (w *world) start(ctx context.Context) (err error) {
	w.operator, err = w.Start(ctx)
	return err
}

// newDeployment returns a Deployment with two containers, app and log, and no pods.
func newDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Paused: true, // no pods are created, and no ReplicaSets
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "app", Image: "app:1", Env: []corev1.EnvVar{{Name: "LEVEL", Value: "info"}}},
					{Name: "log", Image: "log:1"},
				}},
			},
		},
	}
}

// wanted is what the writers want in the first part of the scenario.
var wanted = write.Container{Name: "app", Image: "app:2"}

// stale creates a Deployment, and returns a copy that is stale: the user has since changed the image of
// the other container, and set an annotation.
func (w *world) stale(ctx context.Context, name string) (*appsv1.Deployment, error) {
	copied := newDeployment(name)
	if err := w.c.Create(ctx, copied, user); err != nil {
		return nil, err
	}
	return copied, w.userPatch(ctx, name, `{"metadata":{"annotations":{"note":"kept"}},
		"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:2"}]}}}}`)
}

// userPatch is a strategic merge patch by the user, as of kubectl set image.
func (w *world) userPatch(ctx context.Context, name, patch string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name}}
	return w.c.Patch(ctx, d, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), user)
}

// get reads a Deployment.
func (w *world) get(ctx context.Context, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, w.c.Get(ctx, client.ObjectKey{Namespace: example.Namespace, Name: name}, d)
}

// has returns an error if the note or the images of a Deployment's containers, in their order, are
// others.
func (w *world) has(ctx context.Context, name, note string, want ...string) error {
	d, err := w.get(ctx, name)
	if err != nil {
		return err
	}
	if got := imagesOf(d); !slices.Equal(got, want) || d.Annotations["note"] != note {
		return fmt.Errorf("%s has the images %v and the note %q, want %v and %q", name, got, d.Annotations["note"], want, note)
	}
	return nil
}

// imagesOf returns the images of the containers, in their order.
func imagesOf(d *appsv1.Deployment) []string {
	var all []string
	for _, c := range d.Spec.Template.Spec.Containers {
		all = append(all, c.Image)
	}
	return all
}

// env returns the variables of the first container.
func env(d *appsv1.Deployment) map[string]string {
	all := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		all[e.Name] = e.Value
	}
	return all
}

// newOverride returns an Override of the container app of the Deployment of that name.
func newOverride(name string, method patchesv1.Method) *patchesv1.Override {
	return &patchesv1.Override{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec: patchesv1.OverrideSpec{Container: "app", Image: "app:2", Method: method,
			Env: map[string]string{"LEVEL": "info", "REGION": "eu"}},
	}
}

// change patches the spec of an Override.
func (w *world) change(ctx context.Context, name string, change func(*patchesv1.OverrideSpec)) error {
	o := newOverride(name, "")
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	before := client.MergeFrom(o.DeepCopy())
	change(&o.Spec)
	return w.c.Patch(ctx, o, before)
}

// ready waits until the condition Ready of an Override is that, and returns its message.
func (w *world) ready(ctx context.Context, name string, status metav1.ConditionStatus, reason string) (message string, err error) {
	err = await.Object(ctx, w.c, newOverride(name, ""), func(o *patchesv1.Override) string {
		ready := meta.FindStatusCondition(o.Status.Conditions, patchesv1.ConditionReady)
		switch {
		case ready == nil || o.Status.ObservedGeneration != o.Generation || ready.ObservedGeneration != o.Generation:
			return name + " was not observed"
		case ready.Status != status || ready.Reason != reason:
			return fmt.Sprintf("%s: Ready is %s, %s: %s", name, ready.Status, ready.Reason, ready.Message)
		}
		message = ready.Message
		return ""
	})
	return message, err
}

// container waits until the container app of a Deployment is that.
func (w *world) container(ctx context.Context, name, image string, variables map[string]string) error {
	return await.Object(ctx, w.c, newDeployment(name), func(d *appsv1.Deployment) string {
		if got := imagesOf(d); got[0] != image || len(got) != 2 || !maps.Equal(env(d), variables) {
			return fmt.Sprintf("%s has the images %v and the variables %v, want %s and %v", name, got, env(d), image, variables)
		}
		return ""
	})
}
