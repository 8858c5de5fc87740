package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
)

// TestDeleted: only Pods that are guarded and not finished are deleted, whatever the cache has.
func TestDeleted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		label   string
		phase   corev1.PodPhase
		deleted bool
	}{
		{"guarded", "true", corev1.PodRunning, true},
		{"not guarded", "false", corev1.PodRunning, false},
		{"succeeded", "true", corev1.PodSucceeded, false},
		{"failed", "true", corev1.PodFailed, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod",
				Labels: map[string]string{GuardLabel: tt.label}, Annotations: map[string]string{UsageAnnotation: "2Gi"}}}
			pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
			pod.Status.Phase = tt.phase
			c := fake.NewClientBuilder().WithObjects(pod).Build()
			r := &PodReconciler{Client: c, Recorder: events.NewFakeRecorder(1)}
			key := client.ObjectKeyFromObject(pod)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), key, pod); apierrors.IsNotFound(err) != tt.deleted {
				t.Errorf("deleted is %v, want %v", err, tt.deleted)
			}
		})
	}
}

func TestExcess(t *testing.T) {
	for _, tt := range []struct {
		name   string
		usage  string // "" for none
		limits []string
		want   string
		failed bool
	}{
		{"unknown usage", "", []string{"100Mi"}, "", false},
		{"below", "99Mi", []string{"100Mi"}, "", false},
		{"equal in other units", "104857600", []string{"100Mi"}, "", false},
		{"above", "101Mi", []string{"100Mi"}, "it uses 101Mi of memory, its limit is 100Mi", false},
		{"the sum of all containers", "150Mi", []string{"100Mi", "100Mi"}, "", false},
		{"above the sum", "201Mi", []string{"100Mi", "100Mi"}, "it uses 201Mi of memory, its limit is 200Mi", false},
		{"one container without a limit", "1Ti", []string{"100Mi", ""}, "", false},
		{"no quantity", "lots", []string{"100Mi"}, "", true},
		{"an empty annotation", " ", []string{"100Mi"}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			if tt.usage != "" {
				pod.Annotations[UsageAnnotation] = tt.usage
			}
			for _, limit := range tt.limits {
				c := corev1.Container{}
				if limit != "" {
					c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			got, err := excessOf(pod)
			if got != tt.want || (err != nil) != tt.failed {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
