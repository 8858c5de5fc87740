package controlplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/internal/inprocess"
)

// watchOf opens a watch, and returns the body of the response.
func watchOf(t *testing.T, transport http.RoundTripper, asks bool, path, accept string) io.ReadCloser {
	t.Helper()
	ctx := t.Context()
	if asks {
		ctx = inprocess.AskForObjects(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

const protobufWatch = "application/vnd.kubernetes.protobuf;stream=watch,application/vnd.kubernetes.protobuf"

// TestSharedObjects compares the events that a watch of a controller shares with the server, and the same events as client-go decodes them.
func TestSharedObjects(t *testing.T) {
	plane, err := Start(t.Context(), Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	config := plane.Config()
	config.ContentType = runtime.ContentTypeProtobuf
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default")
	create := func(name string, labels map[string]string) *corev1.Pod {
		t.Helper()
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{}, Finalizers: []string{}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "nginx", Env: []corev1.EnvVar{}}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod
	}
	web := map[string]string{"app": "web"}
	create("first", web)
	create("other", nil)

	decoded, err := pods.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web", AllowWatchBookmarks: true,
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	defer decoded.Stop()
	paths := endpointstest.Count(t, "pods", "watch")
	body := watchOf(t, controllerOf(plane), true, "/api/v1/namespaces/default/pods?watch=1&labelSelector=app%3Dweb&allowWatchBookmarks=true"+
		"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", protobufWatch)
	paths().Require(t, endpointstest.Decoded("shared"), 1)
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, errObjects) {
		t.Errorf("reading bytes: %v", err)
	}
	var left []watch.Event
	compare := func(want watch.EventType) {
		t.Helper()
		for len(left) == 0 {
			if left, err = body.(inprocess.EventReader).ReadEvents(); err != nil {
				t.Fatal(err)
			}
		}
		got, same := left[0], <-decoded.ResultChan()
		left = left[1:]
		got.Object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		same.Object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if got.Type != want || !reflect.DeepEqual(got, same) {
			t.Fatalf("got %+v, want %s and %+v", got, want, same)
		}
	}
	compare(watch.Added)
	compare(watch.Bookmark)
	pod := create("second", web)
	compare(watch.Added)
	err = pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Name: "node"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	compare(watch.Modified)
	if pod, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase, pod.Status.StartTime, pod.Status.PodIPs = corev1.PodRunning, new(metav1.Now()), []corev1.PodIP{}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	compare(watch.Modified)
	pod.Labels = nil
	if _, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	compare(watch.Deleted)
	if err := pods.Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	compare(watch.Modified) // with the deletion timestamp
	compare(watch.Deleted)
	// What a client does with the fields of its object does not reach the server.
	pod = create("third", web)
	for len(left) == 0 {
		if left, err = body.(inprocess.EventReader).ReadEvents(); err != nil {
			t.Fatal(err)
		}
	}
	left[0].Object.(*corev1.Pod).Labels, left[0].Object.(*corev1.Pod).Spec.NodeName = nil, "changed"
	stored, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || !reflect.DeepEqual(stored.Labels, web) || stored.Spec.NodeName != "" {
		t.Errorf("the stored pod has labels %v and the node %q, %v", stored.Labels, stored.Spec.NodeName, err)
	}
}

// controllerOf returns a transport of a controller that may do anything.
func controllerOf(c *ControlPlane) *inProcess {
	return c.transport.asController(always(&user.DefaultInfo{Name: "controller", Groups: []string{user.SystemPrivilegedGroup}}))
}

// TestSharedObjectsOnly opens watches that get bytes: the server has another object than the client would decode, or the client has not
// asked or is none of the control plane's own.
func TestSharedObjectsOnly(t *testing.T) {
	plane, err := Start(t.Context(), Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	controller := controllerOf(plane)
	const configMaps = "/api/v1/configmaps?watch=1"
	for _, tt := range []struct {
		name         string
		transport    http.RoundTripper
		asks         bool
		path, accept string
		want         bool
	}{
		{"a controller", controller, true, configMaps, protobufWatch, true},
		{"a client that does not ask", controller, false, configMaps, protobufWatch, false},
		{"another client", plane.transport, true, configMaps, protobufWatch, false},
		{"metadata", controller, true, configMaps, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", false},
		{"a table", controller, true, configMaps, "application/json;as=Table;g=meta.k8s.io;v=v1", false},
		{"another version than the stored one", controller, true, "/apis/events.k8s.io/v1/events?watch=1", protobufWatch, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := watchOf(t, tt.transport, tt.asks, tt.path, tt.accept)
			if _, got := body.(inprocess.EventReader); got != tt.want {
				t.Errorf("the body is a %T", body)
			}
		})
	}
}

// TestPipeOfEvents: a writer waits for a reader that is too far behind, until the reader has gone or the pipe may grow. A reader gets what was
// written before the end.
func TestPipeOfEvents(t *testing.T) {
	write := func(p *pipe, n int) (written *int) {
		written = new(int)
		go func() {
			for range n {
				p.WriteEvent(watch.Event{Type: watch.Added})
				*written++
			}
		}()
		synctest.Wait()
		return written
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPipe()
		written := write(p, 2*pipeEvents+1)
		if *written != pipeEvents {
			t.Fatalf("%d events were written", *written)
		}
		events, err := p.ReadEvents()
		if synctest.Wait(); err != nil || len(events) != pipeEvents || *written != 2*pipeEvents {
			t.Fatalf("%d events were read, and %d written, %v", len(events), *written, err)
		}
		p.unblock()
		if synctest.Wait(); *written != 2*pipeEvents+1 {
			t.Fatalf("%d events were written", *written)
		}
		p.closeWrite()
		if events, err = p.ReadEvents(); err != nil || len(events) != pipeEvents+1 {
			t.Fatalf("%d events were read, %v", len(events), err)
		}
		if events, err = p.ReadEvents(); !errors.Is(err, io.EOF) || len(events) > 0 {
			t.Fatalf("%d events were read, %v", len(events), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPipe()
		written := write(p, 2*pipeEvents)
		p.closeRead(context.Canceled)
		if synctest.Wait(); *written != 2*pipeEvents {
			t.Fatalf("%d events were written", *written)
		}
		if _, err := p.ReadEvents(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}
