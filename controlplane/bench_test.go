package controlplane_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// BenchmarkFirstWrite measures from Start to the first accepted write. Its first round, which is the
// first in the process, is reported apart.
func BenchmarkFirstWrite(b *testing.B) {
	for b.Loop() {
		plane, err := controlplane.Start(b.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := clientFor(b, plane.Config()).CoreV1().Pods("default").Create(b.Context(), examplePod(0), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := plane.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkCreatePods measures 8 writers on one control plane without controllers, client included.
func BenchmarkCreatePods(b *testing.B) {
	for _, way := range []struct {
		name   string
		config func(*testing.B, *controlplane.ControlPlane) *rest.Config
	}{
		{"in-process", func(_ *testing.B, c *controlplane.ControlPlane) *rest.Config { return c.Config() }},
		{"https", overHTTPS},
	} {
		b.Run(way.name, func(b *testing.B) {
			plane, err := controlplane.Start(b.Context(), controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
			if err != nil {
				b.Fatal(err)
			}
			defer plane.Stop()
			pods := clientFor(b, way.config(b, plane)).CoreV1().Pods("default")
			var next atomic.Int64
			var writers sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range 8 {
				writers.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := pods.Create(context.Background(), examplePod(int(n)), metav1.CreateOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

func overHTTPS(b *testing.B, c *controlplane.ControlPlane) *rest.Config {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		b.Fatal(err)
	}
	return cfg
}

func clientFor(tb testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	tb.Helper()
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// examplePod is a small pod with the parts that most pods have.
func examplePod(n int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", n), Labels: map[string]string{"app": "web", "tier": "front"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.29",
			Env:   []corev1.EnvVar{{Name: "MODE", Value: "production"}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		}}},
	}
}
