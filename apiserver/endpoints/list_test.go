package endpoints_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/internal/heaptest"
)

// TestListMemory stops reading a list of 64 MB after its first bytes, and measures the memory that
// the server then uses for it. It must be small, as the list is encoded object by object while it
// is sent.
func TestListMemory(t *testing.T) {
	const objects, size, most = 400, 160_000, 8 << 20
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	client := controlplanetest.ClientFor(t, plane.Config())
	for i := range objects {
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)},
			Data:       map[string]string{"text": strings.Repeat(fmt.Sprint(i), size/len(fmt.Sprint(i)))},
		}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cfg := controlplanetest.FromKubeconfig(t, plane)
	https, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer https.CloseIdleConnections()
	const watchList = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for name, test := range map[string]struct{ query, accept string }{
		"JSON":                {"", apiruntime.ContentTypeJSON},
		"protobuf":            {"", apiruntime.ContentTypeProtobuf},
		"JSON in a watch":     {watchList, apiruntime.ContentTypeJSON},
		"protobuf in a watch": {watchList, apiruntime.ContentTypeProtobuf},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), "GET", cfg.Host+"/api/v1/configmaps"+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", test.accept)
			request.Header.Set("Accept-Encoding", "identity")
			heap := heaptest.New(t, "flyball.dev/apiserver/endpoints.")
			response, err := https.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.ReadFull(response.Body, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			used := heap.Held()
			t.Logf("%d KiB are used for the list", used>>10)
			if used > most {
				t.Errorf("%d MiB are used for the list, want at most %d", used>>20, most>>20)
			}
			if n, err := io.CopyN(io.Discard, response.Body, objects*size*9/10); err != nil {
				t.Errorf("the list had %d bytes: %v", n, err)
			}
		})
	}
}
