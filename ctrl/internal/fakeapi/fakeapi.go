// Package fakeapi is a small Kubernetes API server for tests of caches, clients, mappers and
// recorders. A Server is an http.RoundTripper: it needs no socket, starts no goroutine and works in
// a testing/synctest bubble.
//
// A server keeps the objects that tests Put and clients create, lists them (in pages, if PageSize
// is set), streams changes to watches, and serves discovery for its kinds. Faults are scripted:
// Respond handles or fails requests, Send and Break disturb watches, Oldest expires the history.
// Tests of the semantics of Kubernetes use flyball.dev/controlplane instead.
package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Func is an http.RoundTripper that is one function, for tests that need no more of a server.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f Func) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// JSON returns a response with a body encoded as JSON.
func JSON(code int, body any) *http.Response {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return response(code, runtime.ContentTypeJSON, io.NopCloser(bytes.NewReader(data)))
}

func response(code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: body}
}

// Request is a request that a server has received. Query is encoded, with its keys sorted.
type Request struct {
	Method, Path, Query, ContentType, Accept, Body string
}

// Object is an object of a kind in client-go's scheme.
type Object interface {
	metav1.Object
	runtime.Object
}

// Server is an API server in memory. The zero value serves no kinds; Serve adds them. Its methods
// may be called concurrently. Its fields are changed before the first request, or within Do.
type Server struct {
	// Respond, if not nil, is called with each request, one at a time. It returns a response, or an
	// error (an error of the API becomes a Status, any other fails the connection), or nil for both
	// to leave the request to the server.
	Respond func(Request) (*http.Response, error)
	// Media is the content type of lists and watches: JSON if empty, or protobuf.
	Media string
	// PageSize is the number of objects in a page of a list, and ReadSize the largest number of bytes
	// that a read of a watch returns; 0 is without a limit.
	PageSize, ReadSize int
	// NoWatchList rejects streaming lists (sendInitialEvents), as servers before Kubernetes 1.32 do.
	NoWatchList bool
	// NoInitialEventsEnd leaves out the bookmark that ends the initial events of a streaming list.
	NoInitialEventsEnd bool
	// Aggregated makes discovery aggregated, as of Kubernetes 1.27. The resources of a version that is
	// Stale are then left out, as of an aggregated API server that is unavailable.
	Aggregated bool
	Stale      []schema.GroupVersion
	// NoHistory expires each change at once: watches can only start from the latest version.
	NoHistory bool
	// Version is the latest version, and Oldest the first from which watches and pages can continue.
	Version, Oldest int

	mu        sync.Mutex
	resources []resource
	objects   map[string]Object // by path: resource, namespace and name
	history   []change
	watches   []*watcher
	requests  []Request
}

// resource is a kind that is served.
type resource struct {
	kind       schema.GroupVersionKind
	plural     string
	namespaced bool
}

// change is a write: before is nil for a creation, after for a deletion.
type change struct {
	plural        string
	version       int
	before, after Object
}

// New returns a server at version 1 that serves these kinds of client-go's scheme.
func New(kinds ...schema.GroupVersionKind) *Server {
	s := &Server{Version: 1}
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		s.Serve(kind, plural.Resource, kind.Kind != "Node")
	}
	return s
}

// Serve adds a kind, or replaces it. Discovery prefers the first version of a group.
func (s *Server) Serve(kind schema.GroupVersionKind, plural string, namespaced bool) {
	s.Do(func() {
		s.resources = slices.DeleteFunc(s.resources, func(r resource) bool { return r.kind == kind })
		s.resources = append(s.resources, resource{kind, plural, namespaced})
	})
}

// Mapper returns a mapper of the kinds that are served now.
func (s *Server) Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	s.Do(func() {
		for _, r := range s.resources {
			scope := meta.RESTScopeRoot
			if r.namespaced {
				scope = meta.RESTScopeNamespace
			}
			m.Add(r.kind, scope)
		}
	})
	return m
}

// Do calls f while no request is handled. f must not call methods of the server.
func (s *Server) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Answer makes the server respond to all requests with an object from now on.
func (s *Server) Answer(body any) {
	s.Do(func() {
		s.Respond = func(Request) (*http.Response, error) { return JSON(http.StatusOK, body), nil }
	})
}

// Fail makes all requests fail from now on, or none if err is nil.
func (s *Server) Fail(err error) {
	s.Do(func() { s.Respond = func(Request) (*http.Response, error) { return nil, err } })
}

// Requests returns the requests since the last call.
func (s *Server) Requests() (requests []Request) {
	s.Do(func() { requests, s.requests = s.requests, nil })
	return requests
}

// Put creates or replaces objects, which get the resource version and UID that a response has. Each
// watch gets the events of one call at once.
func (s *Server) Put(objs ...Object) {
	s.Do(func() {
		for _, obj := range objs {
			plural, _ := meta.UnsafeGuessKindToResource(kindOf(obj))
			s.put(plural.Resource, obj)
		}
	})
}

// Delete deletes an object, if it exists.
func (s *Server) Delete(plural, namespace, name string) {
	s.Do(func() {
		key := path.Join(plural, namespace, name)
		if before := s.objects[key]; before != nil {
			delete(s.objects, key)
			s.commit(change{plural: plural, before: before})
		}
	})
}

// Objects returns copies of the objects of a resource, by name.
func (s *Server) Objects(plural string) (objs []Object) {
	s.Do(func() {
		for _, obj := range s.of(plural) {
			objs = append(objs, obj.DeepCopyObject().(Object))
		}
	})
	return objs
}

// of returns the objects of a resource, by name.
func (s *Server) of(plural string) (objs []Object) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, plural+"/") {
			objs = append(objs, s.objects[key])
		}
	}
	return objs
}

func (s *Server) put(plural string, obj Object) {
	key := path.Join(plural, obj.GetNamespace(), obj.GetName())
	before := s.objects[key]
	obj.SetUID(types.UID(fmt.Sprint("uid-", s.Version+1)))
	if before != nil {
		obj.SetUID(before.GetUID())
	}
	obj.SetResourceVersion(strconv.Itoa(s.Version + 1))
	after := obj.DeepCopyObject().(Object)
	if s.objects == nil {
		s.objects = map[string]Object{}
	}
	s.objects[key] = after
	s.commit(change{plural: plural, before: before, after: after})
}

// commit gives a change its version, records it and sends it to the watches.
func (s *Server) commit(c change) {
	s.Version++
	c.version = s.Version
	s.history = append(s.history, c)
	if s.NoHistory {
		s.Oldest = s.Version
	}
	for _, w := range s.watches {
		w.send(c)
	}
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	req := Request{r.Method, r.URL.Path, r.URL.Query().Encode(),
		r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	if s.Respond != nil {
		resp, err = s.Respond(req)
	}
	if resp == nil && err == nil {
		resp, err = s.handle(r, req)
	}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		status := api.Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		resp, err = JSON(int(status.Code), status), nil
	}
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}
