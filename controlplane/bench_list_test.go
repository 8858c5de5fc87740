package controlplane_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/controlplane/encryption"
	"flyball.dev/storage/memory"
)

// BenchmarkList lists pods that nobody has used for a while, so they are compressed. A watch is read up to the end of its initial
// events.
func BenchmarkList(b *testing.B) {
	const watchList = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	benchmarkLists(b, nil, []listCase{
		{"protobuf", runtime.ContentTypeProtobuf, ""},
		{"JSON", runtime.ContentTypeJSON, ""},
		{"protobuf by label", runtime.ContentTypeProtobuf, "?labelSelector=app%3Dapp-7"},
		{"protobuf by node", runtime.ContentTypeProtobuf, "?fieldSelector=spec.nodeName%3Dnode-7"},
		{"protobuf of metadata", runtime.ContentTypeProtobuf + metadataOnly, ""},
		{"JSON of metadata", runtime.ContentTypeJSON + metadataOnly, ""},
		{"protobuf in a watch", runtime.ContentTypeProtobuf, watchList},
		{"JSON in a watch", runtime.ContentTypeJSON, watchList},
		{"protobuf by label in a watch", runtime.ContentTypeProtobuf, watchList + "&labelSelector=app%3Dapp-7"},
		{"protobuf by node in a watch", runtime.ContentTypeProtobuf, watchList + "&fieldSelector=spec.nodeName%3Dnode-7"},
	})
}

// BenchmarkEncryptedList is BenchmarkList with encrypted pods.
func BenchmarkEncryptedList(b *testing.B) {
	file := filepath.Join(b.TempDir(), "encryption.yaml")
	configuration := fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["pods"],
		"providers":[{"aesgcm":{"keys":[{"name":"a","secret":%q}]}}]}]}`, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		b.Fatal(err)
	}
	e, err := encryption.Load(file, false)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close) // after the control plane has ended
	benchmarkLists(b, e.Transformers, []listCase{
		{"protobuf", runtime.ContentTypeProtobuf, ""},
		{"JSON", runtime.ContentTypeJSON, ""},
		{"protobuf by label", runtime.ContentTypeProtobuf, "?labelSelector=app%3Dapp-7"},
		{"protobuf of metadata", runtime.ContentTypeProtobuf + metadataOnly, ""},
	})
}

const metadataOnly = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

// listCase is a list that is measured.
type listCase struct{ name, accept, query string }

// benchmarkLists measures lists of pods.
func benchmarkLists(b *testing.B, transformers value.ResourceTransformers, cases []listCase) {
	const n = 10_000
	s := memory.New(memory.Options{CompressAfter: 10 * time.Millisecond})
	plane, err := controlplane.Start(b.Context(), controlplane.Options{Storage: s, WithoutControllers: true, Transformers: transformers})
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
	for _, c := range cases {
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
