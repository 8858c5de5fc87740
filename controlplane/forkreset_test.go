package controlplane_test

import (
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/storage/memory"
)

// TestForkWhileResetting forks a control plane while a client changes its definitions and objects and resets it. Each fork has
// the state of a moment: the object at the checkpoint, with or without what came later, and custom resources only of the
// definitions that it has.
func TestForkWhileResetting(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Storage: memory.New(memory.Options{}), WithoutControllers: true})
	defer plane.Stop()
	ctx := t.Context()
	objects, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(definitions).Create(ctx, controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, controlplanetest.ConfigMap("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := plane.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := changeAndReset(t, plane, objects, i); err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
		}
	})
	for range 30 {
		checkFork(t, fork(t, plane, controlplane.ForkOptions{}))
	}
	close(stop)
	changing.Wait()
}

// changeAndReset deletes one definition, creates another one with an object, deletes the object of the checkpoint, and
// resets the control plane.
func changeAndReset(t *testing.T, plane *controlplane.ControlPlane, objects dynamic.Interface, i int) error {
	ctx := t.Context()
	if err := objects.Resource(definitions).Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := objects.Resource(definitions).Create(ctx, controlplanetest.Decode(t, gadgetDefinition), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := objects.Resource(gadgets).Namespace("default").Create(ctx, controlplanetest.Decode(t,
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g-%d"}}`, i)), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default").Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return plane.Reset()
}

// checkFork checks that what a fork serves belongs together, and stops it.
func checkFork(t *testing.T, f *controlplane.ControlPlane) {
	t.Helper()
	ctx := t.Context()
	objects, err := dynamic.NewForConfig(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	list, err := objects.Resource(definitions).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		defined[d.GetName()] = d.GetDeletionTimestamp() == nil
	}
	found, err := objects.Resource(gadgets).Namespace("default").List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) || err == nil && !defined["gadgets.example.com"] {
		t.Errorf("gadgets, defined %v: %v, %v", defined, found, err)
	}
	_, err = controlplanetest.ClientFor(t, f.Config()).CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil && (!apierrors.IsNotFound(err) || !defined["gadgets.example.com"]) {
		t.Errorf("the object of the checkpoint, defined %v: %v", defined, err)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
}
