package controlplane_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// BenchmarkFirstWrite measures the time from Start to the first successful write. The first
// iteration, which is the first in the process, is reported separately.
func BenchmarkFirstWrite(b *testing.B) {
	for b.Loop() {
		plane, err := controlplane.Start(b.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := controlplanetest.ClientFor(b, plane.Config()).CoreV1().Pods("default").Create(b.Context(), controlplanetest.ExamplePod(0), metav1.CreateOptions{}); err != nil {
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
	overBoth(b, func(b *testing.B, cfg *rest.Config) {
		pods := controlplanetest.ClientFor(b, cfg).CoreV1().Pods("default")
		eightWriters(b, func(n int) error {
			_, err := pods.Create(context.Background(), controlplanetest.ExamplePod(n), metav1.CreateOptions{})
			return err
		})
	})
}

// BenchmarkCreatePodsByRBAC measures the same in-process for an administrator, and for a user whom a
// role allows it.
func BenchmarkCreatePodsByRBAC(b *testing.B) {
	for name, token := range map[string]string{"administrator": "", "user": "secret"} {
		b.Run(name, func(b *testing.B) {
			plane := controlplanetest.Start(b, controlplane.Options{WithoutControllers: true,
				Tokens: map[string]*user.DefaultInfo{"secret": {Name: "ann", Groups: []string{"staff"}}}})
			controlplanetest.GrantCluster(b, controlplanetest.ClientFor(b, plane.Config()), "ann", "ann", controlplanetest.PolicyRule("create", "", "pods"))
			cfg := plane.Config()
			cfg.BearerToken = token
			pods := controlplanetest.ClientFor(b, cfg).CoreV1().Pods("default")
			eightWriters(b, func(n int) error {
				_, err := pods.Create(context.Background(), controlplanetest.ExamplePod(n), metav1.CreateOptions{})
				return err
			})
		})
	}
}

// BenchmarkCreateCustom measures the same for a custom kind with a schema.
func BenchmarkCreateCustom(b *testing.B) {
	overBoth(b, func(b *testing.B, cfg *rest.Config) {
		cfg.QPS = -1
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			b.Fatal(err)
		}
		crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if _, err := crds.Create(context.Background(), controlplanetest.Decode(b, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		resources := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
		example := controlplanetest.Decode(b, controlplanetest.ExampleWidget)
		eightWriters(b, func(n int) error {
			widget := example.DeepCopy()
			widget.SetName(fmt.Sprintf("widget-%d", n))
			_, err := resources.Create(context.Background(), widget, metav1.CreateOptions{})
			return err
		})
	})
}

// overBoth runs a benchmark in-process and over HTTPS, each with a control plane of its own.
func overBoth(b *testing.B, run func(*testing.B, *rest.Config)) {
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
			run(b, way.config(b, plane))
		})
	}
}

// eightWriters measures a request that eight writers send. See byEight.
func eightWriters(b *testing.B, request func(n int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	byEight(b, request)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// byEight calls request with 1 to b.N from 8 goroutines. Numbers with the same remainder by 8
// are passed in their order by one of them: an object that is chosen by such a remainder has one
// writer, even if a goroutine is not scheduled for as long as the others take for all objects.
func byEight(b *testing.B, request func(n int) error) {
	const count = 8
	var writers sync.WaitGroup
	for first := 1; first <= count; first++ {
		writers.Go(func() {
			for n := first; n <= b.N; n += count {
				if err := request(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

func overHTTPS(b *testing.B, c *controlplane.ControlPlane) *rest.Config {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		b.Fatal(err)
	}
	return cfg
}
