package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
