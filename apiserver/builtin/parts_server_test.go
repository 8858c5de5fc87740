package builtin_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscalingv1apply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
)

func TestPodResize(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	in := pod("web")
	in.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	created := must[*corev1.Pod](t)(pods.Create(ctx, in, metav1.CreateOptions{}))
	patch := func(text string, sub ...string) (*corev1.Pod, error) {
		return pods.Patch(ctx, "web", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "me"}, sub...)
	}
	const larger = `{"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "other", "resources": {"requests": {"cpu": "2"}}}]}}`
	_, err := patch(`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "2"}}}]}}`)
	wantError(t, err, metav1.StatusReasonInvalid, "pod updates may not change fields other than")
	p := must[*corev1.Pod](t)(patch(larger, "resize"))
	if q := p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; q.String() != "2" || p.Spec.Containers[0].Image != "nginx" || p.Labels["a"] != "" {
		t.Errorf("resized to %s with the image %s and the labels %v", &q, p.Spec.Containers[0].Image, p.Labels)
	}
	if p.Generation != created.Generation+1 {
		t.Errorf("the generation is %d after %d", p.Generation, created.Generation)
	}
	for _, m := range p.ManagedFields {
		if m.Manager == "me" && (m.Subresource != "resize" || m.FieldsV1.GetRawString() != `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{},"f:resources":{"f:requests":{"f:cpu":{}}}}}}}`) {
			t.Errorf("the resize is managed as %s of %q", m.FieldsV1.GetRawString(), m.Subresource)
		}
	}
	for text, want := range map[string]string{
		`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": null}}}]}}`:                                                "Forbidden: resource requests cannot be removed",
		`{"spec": {"containers": [{"name": "new", "image": "x"}]}}`:                                                                            "Forbidden: containers may not be added or removed on resize",
		`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}}]}}`: "Forbidden: only cpu and memory resources are mutable",
		`{"spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]}}`:                                  "Pod QOS Class may not change as a result of resizing",
	} {
		_, err := patch(text, "resize")
		wantError(t, err, metav1.StatusReasonInvalid, want)
	}
}

func TestEphemeralContainers(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	p := must[*corev1.Pod](t)(pods.Create(ctx, pod("web"), metav1.CreateOptions{}))
	debug := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}, TargetContainerName: "web"}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug}
	p.Spec.Containers[0].Image = "other"
	p = must[*corev1.Pod](t)(pods.UpdateEphemeralContainers(ctx, "web", p, metav1.UpdateOptions{}))
	if len(p.Spec.EphemeralContainers) != 1 || p.Spec.EphemeralContainers[0].TerminationMessagePath == "" || p.Spec.Containers[0].Image != "nginx" || p.Generation != 2 {
		t.Errorf("generation %d: %+v", p.Generation, p.Spec)
	}
	changed := p.DeepCopy()
	changed.Spec.EphemeralContainers[0].Image = "alpine"
	_, err := pods.UpdateEphemeralContainers(ctx, "web", changed, metav1.UpdateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed`)
	changed.Spec.EphemeralContainers = nil
	_, err = pods.UpdateEphemeralContainers(ctx, "web", changed, metav1.UpdateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed`)
}

// TestAutoscalersInBothVersions writes an autoscaler in each version and reads it in the other.
func TestAutoscalersInBothVersions(t *testing.T) {
	ctx, client := serve(t)
	v1, v2 := client.AutoscalingV1().HorizontalPodAutoscalers("default"), client.AutoscalingV2().HorizontalPodAutoscalers("default")
	must[*autoscalingv1.HorizontalPodAutoscaler](t)(v1.Create(ctx, &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
	}, metav1.CreateOptions{}))
	a := must[*autoscalingv2.HorizontalPodAutoscaler](t)(v2.Get(ctx, "web", metav1.GetOptions{}))
	if *a.Spec.MinReplicas != 1 || len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("read %+v", a.Spec)
	}
	a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.DisabledPolicySelect)}}
	a.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(50))
	a = must[*autoscalingv2.HorizontalPodAutoscaler](t)(v2.Update(ctx, a, metav1.UpdateOptions{}))
	old := must[*autoscalingv1.HorizontalPodAutoscaler](t)(v1.Get(ctx, "web", metav1.GetOptions{}))
	if *old.Spec.TargetCPUUtilizationPercentage != 50 || old.Annotations["autoscaling.alpha.kubernetes.io/behavior"] == "" || len(a.Annotations) != 0 {
		t.Errorf("read %+v, %v", old.Spec, old.Annotations)
	}
	if _, err := v1.Apply(ctx, autoscalingv1apply.HorizontalPodAutoscaler("web", "default").WithSpec(
		autoscalingv1apply.HorizontalPodAutoscalerSpec().WithMaxReplicas(9)), metav1.ApplyOptions{FieldManager: "me", Force: true}); err != nil {
		t.Fatal(err)
	}
	a = must[*autoscalingv2.HorizontalPodAutoscaler](t)(v2.Get(ctx, "web", metav1.GetOptions{}))
	if a.Spec.MaxReplicas != 9 || a.Spec.Behavior == nil {
		t.Errorf("read %+v", a.Spec)
	}
	a.Status.DesiredReplicas = 2
	must[*autoscalingv2.HorizontalPodAutoscaler](t)(v2.UpdateStatus(ctx, a, metav1.UpdateOptions{}))
	list := must[*autoscalingv1.HorizontalPodAutoscalerList](t)(v1.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"}))
	if len(list.Items) != 1 || list.Items[0].Status.DesiredReplicas != 2 {
		t.Errorf("listed %+v", list.Items)
	}
	old.Spec.MaxReplicas, old.ResourceVersion = 0, ""
	_, err := v1.Update(ctx, old, metav1.UpdateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "spec.maxReplicas: Required value")
}
