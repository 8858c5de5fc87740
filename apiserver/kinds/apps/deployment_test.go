package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/check"
)

// TestRollingUpdateOfNothing has amounts that are absent, as in an object without defaults.
func TestRollingUpdateOfNothing(t *testing.T) {
	var errs field.ErrorList
	rollingUpdate(check.Object(&errs).Child("rollingUpdate"), &appsv1.RollingUpdateDeployment{})
	const want = "rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
	if len(errs) != 1 || errs[0].Error() != want || errs[0].BadValue != (intstr.IntOrString{}) {
		t.Errorf("got  %v\nwant %s", errs, want)
	}
}

// TestValidDeploymentAllocates checks that the validation of a valid Deployment costs little. Most allocations are upstream's: the
// selector, and paths.
func TestValidDeploymentAllocates(t *testing.T) {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		},
	}}
	defaultDeployment(d)
	if n := testing.AllocsPerRun(100, func() {
		if errs := validateDeployment(d, nil); len(errs) > 0 {
			t.Fatal(errs)
		}
	}); n > 31 {
		t.Errorf("%v allocations", n)
	}
}
