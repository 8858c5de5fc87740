package main

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/podguard/internal/controller"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while pods use too much memory. The pods of a StatefulSet are replaced by pods with
// the same names, which must not be deleted for what the ones before them used.
func TestLab(t *testing.T) {
	labels := map[string]string{"app": "steady", controller.GuardLabel: "true"}
	steady := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "steady"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29", Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("200Mi")},
				}}}},
			},
		},
	}
	exampletest.Lab(t, podGuard, lab.Scenario{Steps: append(exampletest.Steps(t, podGuard),
		lab.Create(steady),
		use("steady-0", "150Mi"),
		use("steady-0", "300Mi"),
		use("steady-1", "300Mi"),
	)}, nil)
}

// use returns the step in which a Pod uses some memory.
func use(pod, memory string) lab.Step {
	return lab.Step{Name: "default/" + pod + " uses " + memory, Do: func(ctx context.Context, c client.Client) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controller.UsageAnnotation, memory)
		return c.Patch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}},
			client.RawPatch(types.MergePatchType, []byte(patch)))
	}}
}
