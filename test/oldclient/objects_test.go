package oldclient

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

// limit returns the context of a test.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newPod returns a pod that runs a command in the shell of the control plane.
func newPod(name string, labels map[string]string, command ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox", Command: command}}}}
}

// running creates a pod, and waits until it is ready.
func running(ctx context.Context, t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := shared.CoreV1().Pods("default")
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := cache.NewListWatchFromClient(shared.CoreV1().RESTClient(), "pods", "default", fields.OneTermEqualSelector("metadata.name", pod.Name))
	_, err := watchtools.UntilWithSync(ctx, list, &corev1.Pod{}, nil, func(e watch.Event) (bool, error) {
		for _, c := range e.Object.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, *metav1.NewDeleteOptions(0)) // it may be gone
	})
}

// TestObjects creates, reads, lists, patches, watches and deletes objects.
func TestObjects(t *testing.T) {
	ctx := limit(t)
	maps := shared.CoreV1().ConfigMaps("default")
	first, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"of": "old"}}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "of=old", ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, tt := range []struct {
		kind types.PatchType
		body string
		opts metav1.PatchOptions
	}{
		{types.StrategicMergePatchType, `{"data":{"k":"2"}}`, metav1.PatchOptions{}},
		{types.MergePatchType, `{"data":{"k":"3"}}`, metav1.PatchOptions{}},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/k","value":"4"}]`, metav1.PatchOptions{}},
		{types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"5"}}`, metav1.PatchOptions{FieldManager: "old", Force: new(true)}},
	} {
		patched, err := maps.Patch(ctx, "a", tt.kind, []byte(tt.body), tt.opts)
		if err != nil {
			t.Fatal(tt.kind, err)
		}
		e, ok := <-w.ResultChan()
		if !ok || e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).Data["k"] != patched.Data["k"] {
			t.Fatalf("after the %s patch with the result %v: %v", tt.kind, patched.Data, e)
		}
	}
	if _, err := maps.Update(ctx, first, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of the first state: %v", err)
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if err == nil {
			now.Data["k"] = "6"
			_, err = maps.Update(ctx, now, metav1.UpdateOptions{})
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "of=old"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Data["k"] != "6" {
		t.Errorf("the list: %v, %v", list, err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=old"}); err != nil {
		t.Error(err)
	}
	for e := range w.ResultChan() {
		if e.Type == watch.Deleted {
			break
		}
	}
	if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

// TestProtobuf lists and watches with protobuf, which the clients of controllers used.
func TestProtobuf(t *testing.T) {
	ctx := limit(t)
	running(ctx, t, newPod("protobuf", nil, "sleep", "1d"))
	config := *shared.config
	config.ContentType = "application/vnd.kubernetes.protobuf"
	factory := informers.NewSharedInformerFactory(mustClient(t, &config), 0)
	nodes, pods := factory.Core().V1().Nodes().Lister(), factory.Core().V1().Pods().Lister()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %v is not in sync", kind)
		}
	}
	if _, err := nodes.Get("flyball"); err != nil {
		t.Error(err)
	}
	if _, err := pods.Pods("default").Get("protobuf"); err != nil {
		t.Error(err)
	}
}

// TestDiscovery finds the kinds of the server, and uses one without its types.
func TestDiscovery(t *testing.T) {
	ctx := limit(t)
	groups, resources, err := shared.Discovery().ServerGroupsAndResources()
	if err != nil || len(groups) < 10 || len(resources) < 10 {
		t.Fatalf("%d groups, %d lists of resources, %v", len(groups), len(resources), err)
	}
	preferred, err := discovery.ServerPreferredNamespacedResources(shared.Discovery())
	if err != nil || len(preferred) < 10 {
		t.Fatalf("%d lists of resources, %v", len(preferred), err)
	}
	if _, err := shared.Discovery().OpenAPISchema(); err != nil {
		t.Error(err)
	}
	client, err := dynamic.NewForConfig(shared.config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil || len(list.Items) != 2 || list.GetContinue() == "" {
		t.Errorf("%d namespaces, continue %q, %v", len(list.Items), list.GetContinue(), err)
	}
}

// TestDeployment rolls a Deployment out and scales it.
func TestDeployment(t *testing.T) {
	ctx := limit(t)
	labels := map[string]string{"app": "old"}
	deployments := shared.AppsV1().Deployments("default")
	_, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // with the controller, which sets the status
		scale, err := deployments.GetScale(ctx, "old", metav1.GetOptions{})
		if err == nil {
			scale.Spec.Replicas = 3
			_, err = deployments.UpdateScale(ctx, "old", scale, metav1.UpdateOptions{})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	list := cache.NewListWatchFromClient(shared.AppsV1().RESTClient(), "deployments", "default", fields.OneTermEqualSelector("metadata.name", "old"))
	if _, err := watchtools.UntilWithSync(ctx, list, &appsv1.Deployment{}, nil, func(e watch.Event) (bool, error) {
		return e.Object.(*appsv1.Deployment).Status.AvailableReplicas == 3, nil
	}); err != nil {
		t.Error(err)
	}
	if err := deployments.Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
