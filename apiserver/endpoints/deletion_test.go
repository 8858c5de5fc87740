package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/controlplane"
)

// TestDeletionDelay watches deletions without grace period and removals of the last finalizer, with and without a
// deletion delay.
func TestDeletionDelay(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) { testDeletionDelay(t, delay) })
	}
}

func testDeletionDelay(t *testing.T, delay time.Duration) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, DeletionDelay: delay})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client, ctx := controlplanetest.ClientFor(t, plane.Config()).CoreV1(), t.Context()
	pods, maps := client.Pods("default"), client.ConfigMaps("default")
	controlplanetest.Must[*corev1.Pod](t)(pods.Create(ctx, controlplanetest.ExamplePod(1), metav1.CreateOptions{}))
	name := controlplanetest.ExamplePod(1).Name
	for _, m := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "kept", Finalizers: []string{"example.com/keep"}}},
	} {
		controlplanetest.Must[*corev1.ConfigMap](t)(maps.Create(ctx, m, metav1.CreateOptions{}))
	}
	podEvents := controlplanetest.Must[watch.Interface](t)(pods.Watch(ctx, metav1.ListOptions{}))
	defer podEvents.Stop()

	began := time.Now()
	deleted := make(chan error)
	go func() { deleted <- pods.Delete(ctx, name, metav1.DeleteOptions{}) }()
	synctest.Wait()
	if delay > 0 {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 0 {
			t.Errorf("before the delay is over: %v, %v", pod, err)
		}
	}
	if err := <-deleted; err != nil || time.Since(began) != delay {
		t.Errorf("the pod was deleted after %v: %v", time.Since(began), err)
	}
	var events []string
	for range 3 {
		e := <-podEvents.ResultChan()
		events = append(events, fmt.Sprint(e.Type, e.Object.(*corev1.Pod).DeletionTimestamp != nil))
	}
	if want := []string{"ADDEDfalse", "MODIFIEDtrue", "DELETEDtrue"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}

	began = time.Now()
	if err := maps.Delete(ctx, "plain", metav1.DeleteOptions{}); err != nil || time.Since(began) != 0 {
		t.Errorf("an object that was not marked was deleted after %v: %v", time.Since(began), err)
	}
	if err := maps.Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil || time.Since(began) != 0 {
		t.Errorf("an object was marked after %v: %v", time.Since(began), err)
	}
	_, err = maps.Patch(ctx, "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil || time.Since(began) != delay {
		t.Errorf("the last finalizer was removed after %v: %v", time.Since(began), err)
	}
	if _, err := maps.Get(ctx, "kept", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after that: %v", err)
	}
}

// TestDeletionDelayEnds has a request that ends within the delay. Its deletion is completed all the same.
func TestDeletionDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, DeletionDelay: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		pods, ctx := controlplanetest.ClientFor(t, plane.Config()).CoreV1().Pods("default"), t.Context()
		name := controlplanetest.Must[*corev1.Pod](t)(pods.Create(ctx, controlplanetest.ExamplePod(1), metav1.CreateOptions{})).Name
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := pods.Delete(short, name, metav1.DeleteOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if pod, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is %v, %v", pod, err)
		}
	})
}

func TestDeletionDelayTooLong(t *testing.T) {
	_, err := controlplane.Start(t.Context(), controlplane.Options{DeletionDelay: time.Minute})
	if want := "the deletion delay of 1m0s must be shorter than a request may take, 1m0s"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
