package envtest_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/envtest"
)

func TestSmoke(t *testing.T) {
	for range 5 {
		t0 := time.Now()
		env := &envtest.Environment{}
		cfg, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		t1 := time.Now()
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		t2 := time.Now()
		if err := env.Reset(); err != nil {
			t.Fatal(err)
		}
		t3 := time.Now()
		if err := c.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		t4 := time.Now()
		if err := env.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Log("start", t1.Sub(t0), "first write", t2.Sub(t0), "reset", t3.Sub(t2), "stop", time.Since(t4))
	}
}
