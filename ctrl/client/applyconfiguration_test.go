package client_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv1ac "k8s.io/client-go/applyconfigurations/autoscaling/v1"

	"flyball.dev/ctrl/client"
)

// The response to an apply of a scale is decoded into both arguments: the body becomes the scale,
// and the configuration of the object takes the metadata, which the scale has in common with it.
func TestApplyScaleFillsItsArguments(t *testing.T) {
	c := start(t)
	ctx := context.Background()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	expectNoError(t, c.Create(ctx, d))
	apply := func(of, body runtime.ApplyConfiguration) {
		t.Helper()
		expectNoError(t, c.SubResource("scale").Apply(ctx, of, &client.SubResourceApplyOptions{SubResourceBody: body},
			client.FieldOwner("me"), client.ForceOwnership))
		expectNoError(t, c.Get(ctx, client.ObjectKeyFromObject(d), d))
	}
	scale := func(replicas int32) *autoscalingv1ac.ScaleApplyConfiguration {
		return autoscalingv1ac.Scale().WithSpec(autoscalingv1ac.ScaleSpec().WithReplicas(replicas))
	}

	of, body := appsv1ac.Deployment("web", "default").WithLabels(map[string]string{"mine": "yes"}), scale(2)
	apply(of, body)
	if of.ResourceVersion == nil || *of.ResourceVersion != d.ResourceVersion || of.UID == nil || *of.UID != d.UID {
		t.Errorf("got metadata %+v, want that of %s at %s", of.ObjectMetaApplyConfiguration, d.UID, d.ResourceVersion)
	}
	if *of.Kind != "Deployment" || *of.APIVersion != "apps/v1" || of.Labels["mine"] != "yes" || of.Spec != nil {
		t.Errorf("the configuration became %+v", of)
	}
	if body.ResourceVersion == nil || *body.ResourceVersion != d.ResourceVersion || *body.Kind != "Scale" || body.Status == nil {
		t.Errorf("the body became %+v", body)
	}

	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	loose.SetNamespace("default")
	loose.SetName("web")
	loose.SetLabels(map[string]string{"mine": "yes"})
	apply(client.ApplyConfigurationFromUnstructured(loose), *scale(3)) // a body by value stays as it is
	if loose.GetResourceVersion() != d.ResourceVersion || loose.GetUID() != d.UID || loose.GetGeneration() != 0 {
		t.Errorf("got %+v, want the metadata of %s at %s", loose.Object, d.UID, d.ResourceVersion)
	}
	if loose.GetKind() != "Deployment" || loose.GetLabels()["mine"] != "yes" || loose.Object["spec"] != nil {
		t.Errorf("the configuration became %+v", loose.Object)
	}
	if *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas", *d.Spec.Replicas)
	}
}

// If the body of a subresource is the object itself, so is the response.
func TestApplyStatusFillsItsArguments(t *testing.T) {
	answer := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", ResourceVersion: "7"},
		Status:     appsv1.DeploymentStatus{Replicas: 5},
	}
	c := newClient(t, responding(answer))
	of, body := appsv1ac.Deployment("web", "a").WithLabels(map[string]string{"mine": "yes"}), appsv1ac.Deployment("web", "a")
	expectNoError(t, c.Status().Apply(t.Context(), of, &client.SubResourceApplyOptions{SubResourceBody: body}))
	for _, ac := range []*appsv1ac.DeploymentApplyConfiguration{of, body} {
		if ac.ResourceVersion == nil || *ac.ResourceVersion != "7" || ac.Status == nil || *ac.Status.Replicas != 5 || ac.Labels != nil {
			t.Errorf("became %+v", ac)
		}
	}
}
