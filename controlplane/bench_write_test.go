package controlplane_test

import (
	"context"
	"fmt"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// written is how many objects the writes of a benchmark go round: a multiple of the writers of
// eightWriters.
const written = 512

// verb is a request of a benchmark. The nth call is for the object number n%written, or n if the verb removes objects.
type verb struct {
	name    string
	removes bool
	call    func(ctx context.Context, n int) error
}

// BenchmarkPodVerbs measures 8 clients on one control plane without controllers, client included.
// The pods have the managed fields of three managers: the one who created them, one who has set
// a label, and one who reports the status. Updates include the get before them.
func BenchmarkPodVerbs(b *testing.B) {
	overBoth(b, func(b *testing.B, cfg *rest.Config) {
		pods := controlplanetest.ClientFor(b, cfg).CoreV1().Pods("default")
		labeling := controlplanetest.ClientFor(b, asManager(cfg, "labeler")).CoreV1().Pods("default")
		kubelet := controlplanetest.ClientFor(b, asManager(cfg, "kubelet")).CoreV1().Pods("default")
		benchmarkVerbs(b, func(ctx context.Context, n int) error {
			pod, err := pods.Create(ctx, controlplanetest.ExamplePod(n), metav1.CreateOptions{})
			if err == nil {
				_, err = labeling.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"owner":"us"}}}`),
					metav1.PatchOptions{})
			}
			if err == nil {
				err = reportStatus(ctx, kubelet, pod.Name, 0)
			}
			return err
		}, podVerbs(pods, kubelet))
	})
}

func podVerbs(pods, kubelet typedcorev1.PodInterface) []verb {
	name := func(n int) string { return fmt.Sprintf("pod-%d", n) }
	return []verb{
		{"get", false, func(ctx context.Context, n int) error {
			_, err := pods.Get(ctx, name(n), metav1.GetOptions{})
			return err
		}},
		{"merge-patch", false, func(ctx context.Context, n int) error {
			_, err := pods.Patch(ctx, name(n), types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"seen":"%p"}}}`, &n), metav1.PatchOptions{})
			return err
		}},
		{"strategic-patch", false, func(ctx context.Context, n int) error {
			_, err := pods.Patch(ctx, name(n), types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"seen":"%p"}}}`, &n), metav1.PatchOptions{})
			return err
		}},
		{"update", false, func(ctx context.Context, n int) error {
			pod, err := pods.Get(ctx, name(n), metav1.GetOptions{})
			if err == nil {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "seen", fmt.Sprintf("%p", &n))
				_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
			}
			return err
		}},
		{"status", false, func(ctx context.Context, n int) error {
			return reportStatus(ctx, kubelet, name(n), n)
		}},
		{"apply", false, func(ctx context.Context, n int) error {
			pod := applycorev1.Pod(name(n), "default").WithAnnotations(map[string]string{"applied": fmt.Sprintf("%p", &n)}).
				WithLabels(map[string]string{"team": "a"})
			_, err := pods.Apply(ctx, pod, metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		}},
		{"delete", true, func(ctx context.Context, n int) error {
			return pods.Delete(ctx, name(n), metav1.DeleteOptions{})
		}},
	}
}

// reportStatus makes a pod ready with a new IP.
func reportStatus(ctx context.Context, pods typedcorev1.PodInterface, name string, n int) error {
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", n/250%250, len(pod.ResourceVersion)*7%250)
	if n%2 == 0 {
		pod.Status.Message = pod.ResourceVersion
	}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0)},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0), Message: pod.ResourceVersion},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", Image: "nginx:1.29", ImageID: "sha256:0", Ready: true, ContainerID: "c",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1e9, 0)}},
	}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// BenchmarkCustomVerbs measures the same for a custom kind with a schema.
func BenchmarkCustomVerbs(b *testing.B) {
	overBoth(b, func(b *testing.B, cfg *rest.Config) {
		cfg.QPS = -1
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		client := dynamic.NewForConfigOrDie(cfg)
		crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if _, err := crds.Create(b.Context(), controlplanetest.Decode(b, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		resources := client.Resource(gvr).Namespace("default")
		controller := dynamic.NewForConfigOrDie(asManager(cfg, "controller")).Resource(gvr).Namespace("default")
		example := controlplanetest.Decode(b, controlplanetest.ExampleWidget)
		benchmarkVerbs(b, func(ctx context.Context, n int) error {
			widget := example.DeepCopy()
			widget.SetName(fmt.Sprintf("widget-%d", n))
			_, err := resources.Create(ctx, widget, metav1.CreateOptions{})
			if err == nil {
				_, err = controller.Patch(ctx, widget.GetName(), types.MergePatchType, []byte(`{"status":{"ready":1}}`),
					metav1.PatchOptions{}, "status")
			}
			return err
		}, widgetVerbs(resources, controller))
	})
}

func widgetVerbs(widgets, controller dynamic.ResourceInterface) []verb {
	name := func(n int) string { return fmt.Sprintf("widget-%d", n) }
	get := func(ctx context.Context, n int) (*unstructured.Unstructured, error) {
		return widgets.Get(ctx, name(n), metav1.GetOptions{})
	}
	return []verb{
		{"get", false, func(ctx context.Context, n int) error {
			_, err := get(ctx, n)
			return err
		}},
		{"merge-patch", false, func(ctx context.Context, n int) error {
			_, err := widgets.Patch(ctx, name(n), types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"seen":"%p"}}}`, &n), metav1.PatchOptions{})
			return err
		}},
		{"update", false, func(ctx context.Context, n int) error {
			widget, err := get(ctx, n)
			if err == nil {
				widget.SetAnnotations(map[string]string{"seen": fmt.Sprintf("%p", &n)})
				_, err = widgets.Update(ctx, widget, metav1.UpdateOptions{})
			}
			return err
		}},
		{"status", false, func(ctx context.Context, n int) error {
			widget, err := get(ctx, n)
			if err == nil {
				ready, _, _ := unstructured.NestedInt64(widget.Object, "status", "ready")
				_ = unstructured.SetNestedField(widget.Object, ready+1, "status", "ready")
				_, err = controller.UpdateStatus(ctx, widget, metav1.UpdateOptions{})
			}
			return err
		}},
		{"apply", false, func(ctx context.Context, n int) error {
			widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
			widget.SetName(name(n))
			widget.SetLabels(map[string]string{"team": "a"})
			widget.SetAnnotations(map[string]string{"applied": fmt.Sprintf("%p", &n)})
			_, err := widgets.Apply(ctx, name(n), widget, metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		}},
		{"delete", true, func(ctx context.Context, n int) error {
			return widgets.Delete(ctx, name(n), metav1.DeleteOptions{})
		}},
	}
}

// benchmarkVerbs runs a benchmark for each verb on objects made by create. It calls create only with new numbers, or
// with the numbers of removed objects.
func benchmarkVerbs(b *testing.B, create func(ctx context.Context, n int) error, verbs []verb) {
	made := 0
	makeUpTo := func(b *testing.B, n int) {
		for ; made < n; made++ {
			if err := create(context.Background(), made); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, v := range verbs {
		b.Run(v.name, func(b *testing.B) {
			first := 0
			if v.removes {
				first = made
				makeUpTo(b, made+b.N)
			} else {
				makeUpTo(b, written)
			}
			eightWriters(b, func(n int) error {
				if v.removes {
					return v.call(context.Background(), first+n-1)
				}
				return v.call(context.Background(), n%written)
			})
		})
	}
}

// asManager returns a copy of a configuration with another field manager.
func asManager(cfg *rest.Config, manager string) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.UserAgent = manager + "/v1"
	return c
}
