package controllerutil_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/internal/testserver"
)

// server starts a control plane without controllers and returns a client of it.
func server(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(testserver.Start(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type operation func(context.Context, client.Client, client.Object, controllerutil.MutateFn) (controllerutil.OperationResult, error)

func newDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}
}

// shape makes a deployment valid, with so many replicas.
func shape(d *appsv1.Deployment, replicas int32) {
	labels := map[string]string{"app": "d"}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	if len(d.Spec.Template.Spec.Containers) == 0 {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	}
}

func TestCreateAndThenChange(t *testing.T) {
	for name, do := range map[string]operation{
		"update": controllerutil.CreateOrUpdate,
		"patch":  controllerutil.CreateOrPatch,
	} {
		t.Run(name, func(t *testing.T) {
			c := server(t)
			for _, step := range []struct {
				replicas int32
				want     controllerutil.OperationResult
			}{
				{2, controllerutil.OperationResultCreated},
				{2, controllerutil.OperationResultNone},
				{3, controllerutil.OperationResultUpdated},
			} {
				d := newDeployment()
				got, err := do(t.Context(), c, d, func() error { shape(d, step.replicas); return nil })
				if got != step.want || err != nil {
					t.Errorf("%s, %v; want %s", got, err, step.want)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || *d.Spec.Replicas != step.replicas {
					t.Errorf("there are %v replicas, %v", d.Spec.Replicas, err)
				}
			}
			if got, err := do(t.Context(), c, newDeployment(), nil); got != controllerutil.OperationResultNone || err != nil {
				t.Errorf("without a function: %s, %v", got, err)
			}
		})
	}
}

func TestCreateOrUpdateErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, do := range map[string]operation{
		"update": controllerutil.CreateOrUpdate,
		"patch":  controllerutil.CreateOrPatch,
	} {
		t.Run(name, func(t *testing.T) {
			c := server(t)
			for _, exists := range []bool{false, true} {
				d := newDeployment()
				if got, err := do(t.Context(), c, d, func() error { return broken }); !errors.Is(err, broken) || got != controllerutil.OperationResultNone {
					t.Errorf("a function that fails: %s, %v", got, err)
				}
				d = newDeployment()
				if got, err := do(t.Context(), c, d, func() error { shape(d, 1); d.Name = "e"; return nil }); err == nil || got != controllerutil.OperationResultNone {
					t.Errorf("another name: %s, %v", got, err)
				}
				d = newDeployment()
				if got, err := do(t.Context(), c, d, func() error { shape(d, 1); d.Labels = map[string]string{"x": "no label!"}; return nil }); err == nil || got != controllerutil.OperationResultNone {
					t.Errorf("what the server refuses: %s, %v", got, err)
				}
				if !exists {
					d = newDeployment()
					shape(d, 1)
					if err := c.Create(t.Context(), d); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestPatchOfTheStatus(t *testing.T) {
	c := server(t)
	d := newDeployment()
	shape(d, 1)
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		replicas, ready int32
		want            controllerutil.OperationResult
	}{
		{1, 1, controllerutil.OperationResultUpdatedStatusOnly},
		{2, 2, controllerutil.OperationResultUpdatedStatus},
		{2, 2, controllerutil.OperationResultNone},
		{3, 2, controllerutil.OperationResultUpdated},
		{3, 0, controllerutil.OperationResultUpdatedStatusOnly},
	} {
		d := newDeployment()
		got, err := controllerutil.CreateOrPatch(t.Context(), c, d, func() error {
			shape(d, step.replicas)
			d.Status.Replicas, d.Status.ReadyReplicas = step.ready, step.ready
			return nil
		})
		if got != step.want || err != nil {
			t.Errorf("%+v: %s, %v", step, got, err)
		}
		stored := newDeployment()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), stored); err != nil {
			t.Fatal(err)
		}
		if *stored.Spec.Replicas != step.replicas || stored.Status.ReadyReplicas != step.ready || d.ResourceVersion != stored.ResourceVersion {
			t.Errorf("%+v: stored %d replicas, %d ready", step, *stored.Spec.Replicas, stored.Status.ReadyReplicas)
		}
	}

	// An unstructured object is its own map, which must survive.
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	u.SetNamespace("default")
	u.SetName("d")
	got, err := controllerutil.CreateOrPatch(t.Context(), c, u, func() error {
		return errors.Join(
			unstructured.SetNestedField(u.Object, int64(5), "spec", "replicas"),
			unstructured.SetNestedField(u.Object, int64(4), "status", "replicas"))
	})
	if got != controllerutil.OperationResultUpdatedStatus || err != nil {
		t.Errorf("unstructured: %s, %v", got, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), d); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(d.Spec.Replicas, 0) != 5 || d.Status.Replicas != 4 {
		t.Errorf("unstructured: stored %v replicas, %d in the status", d.Spec.Replicas, d.Status.Replicas)
	}
}
