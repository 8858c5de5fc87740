package controlplane_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/clientscheme"
)

// TestSchemeOfUsers adds kinds to client-go's scheme while a control plane runs, as suites of tests do. The control plane must not read
// that scheme, which has no lock.
func TestSchemeOfUsers(t *testing.T) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: clientscheme.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				clientgoscheme.Scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: fmt.Sprint("Kind", n%100)}, &corev1.Pod{})
			}
		}
	}()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(20)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}}}}}
	w, err := c.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == 20 {
			break
		}
	}
	close(stop)
	<-stopped
}
