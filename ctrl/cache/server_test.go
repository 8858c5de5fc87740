package cache

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// server is an API server without history: after a lost connection, a cache has to list again.
type server struct{ *fakeapi.Server }

func newServer() *server {
	gv := corev1.SchemeGroupVersion
	s := fakeapi.New(gv.WithKind("ConfigMap"), gv.WithKind("Node"), gv.WithKind("Pod"))
	s.NoHistory = true
	return &server{s}
}

func mapper() meta.RESTMapper { return newServer().Mapper() }

// put writes an object as a client would and returns the response.
func (s *server) put(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	s.Put(obj)
	return obj
}

// setMissing decides whether the server rejects all requests as if it did not know the kind.
func (s *server) setMissing(missing bool) {
	s.Fail(nil)
	if missing {
		s.Fail(apierrors.NewNotFound(schema.GroupResource{}, ""))
	}
}

// breakWatches breaks all connections after some more bytes.
func (s *server) breakWatches(bytes string) {
	s.Send([]byte(bytes))
	s.Break(io.ErrUnexpectedEOF)
}

// selections returns the selectors of the requests since the last call.
func (s *server) selections() (all []string) {
	for _, r := range s.Requests() {
		parts := strings.Split(strings.TrimPrefix(r.Path, "/api/v1/"), "/")
		namespace := ""
		if parts[0] == "namespaces" {
			namespace, parts = parts[1], parts[2:]
		}
		q, _ := url.ParseQuery(r.Query)
		all = append(all, fmt.Sprintf("%s ns=%q labels=%q fields=%q", parts[0], namespace, q.Get("labelSelector"), q.Get("fieldSelector")))
	}
	return all
}
