package controlplane_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/storage/memory"
)

// BenchmarkList lists pods that nobody has used for a while, so they are compressed. A watch is read up to the end of its initial
// events.
func BenchmarkList(b *testing.B) {
	const n = 10_000
	s := memory.New(memory.Options{CompressAfter: 10 * time.Millisecond})
	plane, err := controlplane.Start(b.Context(), controlplane.Options{Storage: s, WithoutControllers: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			b.Error(err)
		}
	})
	pods := controlplanetest.ClientFor(b, plane.Config()).CoreV1().Pods("default")
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-7d4b9c6f58-%05d", i), Labels: map[string]string{"app": fmt.Sprint("app-", i%100)}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprint("node-", i%100), Containers: []corev1.Container{{Name: "app", Image: "registry.example.org/app:1"}}},
		}
		if _, err := pods.Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	client, err := rest.HTTPClientFor(plane.Config())
	if err != nil {
		b.Fatal(err)
	}
	defer client.CloseIdleConnections()
	<-time.After(time.Second)
	const watchList = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, c := range []struct{ name, accept, query string }{
		{"protobuf", runtime.ContentTypeProtobuf, ""},
		{"JSON", runtime.ContentTypeJSON, ""},
		{"protobuf by label", runtime.ContentTypeProtobuf, "?labelSelector=app%3Dapp-7"},
		{"protobuf by node", runtime.ContentTypeProtobuf, "?fieldSelector=spec.nodeName%3Dnode-7"},
		{"protobuf in a watch", runtime.ContentTypeProtobuf, watchList},
		{"JSON in a watch", runtime.ContentTypeJSON, watchList},
		{"protobuf by label in a watch", runtime.ContentTypeProtobuf, watchList + "&labelSelector=app%3Dapp-7"},
		{"protobuf by node in a watch", runtime.ContentTypeProtobuf, watchList + "&fieldSelector=spec.nodeName%3Dnode-7"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := get(b.Context(), client, plane.Config().Host+"/api/v1/pods"+c.query, c.accept); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pod")
		})
	}
}

// get reads the response to a request, and forgets it.
func get(ctx context.Context, client *http.Client, url, accept string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := skip(response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// skip reads a response to its end, or a watch up to the bookmark that ends the initial events.
func skip(body io.Reader) error {
	end, buffer, kept := []byte(metav1.InitialEventsAnnotationKey), make([]byte, 64<<10), 0
	for {
		n, err := body.Read(buffer[kept:])
		read := buffer[:kept+n]
		switch {
		case bytes.Contains(read, end) || err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		kept = copy(buffer, read[max(0, len(read)-len(end)):])
	}
}
