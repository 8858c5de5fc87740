package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/client"
)

// server serves lists and watches over HTTP without a socket, and can break connections. It
// implements http.RoundTripper.
type server struct {
	mu          sync.Mutex
	version     int
	objects     map[string]*unstructured.Unstructured
	watchers    []*watcher
	requests    []string
	kindMissing bool
}

// watcher is a list or watch request with its selectors, and the connection of a watch.
type watcher struct {
	resource, namespace string
	label               labels.Selector
	field               fields.Selector
	metadata            bool
	out                 chan []byte
	closed              chan struct{}
	close               func()
}

var kinds = map[string]string{"configmaps": "ConfigMap", "nodes": "Node", "pods": "Pod"}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		scope := meta.RESTScopeNamespace
		if kind == "Node" {
			scope = meta.RESTScopeRoot
		}
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
	}
	return m
}

func newServer() *server {
	return &server{version: 1, objects: map[string]*unstructured.Unstructured{}}
}

func id(resource, namespace, name string) string {
	return resource + "/" + namespace + "/" + name
}

// put creates or updates an object and returns the response.
func (s *server) put(obj client.Object) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvk, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		panic(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk[0])
	resource := strings.ToLower(gvk[0].Kind) + "s"
	before := s.objects[id(resource, u.GetNamespace(), u.GetName())]
	s.version++
	u.SetResourceVersion(strconv.Itoa(s.version))
	if before == nil {
		u.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
	} else {
		u.SetUID(before.GetUID())
	}
	s.objects[id(resource, u.GetNamespace(), u.GetName())] = u
	s.publish(resource, before, u)
	answer := obj.DeepCopyObject().(client.Object)
	answer.SetResourceVersion(u.GetResourceVersion())
	answer.SetUID(u.GetUID())
	return answer
}

func (s *server) remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[id(resource, namespace, name)]
	delete(s.objects, id(resource, namespace, name))
	s.version++
	s.publish(resource, before, nil)
}

// publish notifies the watchers of a change. The caller holds mu.
func (s *server) publish(resource string, before, after *unstructured.Unstructured) {
	for _, w := range s.watchers {
		had, has := w.matches(resource, before), w.matches(resource, after)
		switch {
		case had && has:
			w.send("MODIFIED", after)
		case has:
			w.send("ADDED", after)
		case had:
			last := before.DeepCopy()
			last.SetResourceVersion(strconv.Itoa(s.version))
			w.send("DELETED", last)
		}
	}
}

func (w *watcher) matches(resource string, obj *unstructured.Unstructured) bool {
	return obj != nil && resource == w.resource &&
		(w.namespace == "" || w.namespace == obj.GetNamespace()) &&
		w.label.Matches(labels.Set(obj.GetLabels())) && w.field.Matches(fieldsOfObject(obj))
}

func fieldsOfObject(obj *unstructured.Unstructured) fields.Set {
	known, _, _ := unstructured.NestedString(obj.Object, "data", "known")
	return fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace(), "data.known": known}
}

func (w *watcher) send(event string, obj *unstructured.Unstructured) {
	w.sendRaw(map[string]any{"type": event, "object": w.represent(obj)})
}

func (w *watcher) represent(obj *unstructured.Unstructured) any {
	if !w.metadata {
		return obj
	}
	return map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj.Object["metadata"],
	}
}

func (w *watcher) sendRaw(event any) {
	data, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	w.out <- append(data, '\n')
}

// bookmark sends a bookmark with the current version to all watchers.
func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.bookmark(s.version, nil)
	}
}

func (w *watcher) bookmark(version int, annotations map[string]any) {
	kind := kinds[w.resource]
	apiVersion := "v1"
	if w.metadata {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	w.sendRaw(map[string]any{"type": "BOOKMARK", "object": map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version), "annotations": annotations},
	}})
}

// breakWatches breaks the connections of all watches after some more bytes.
func (s *server) breakWatches(bytes string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		if bytes != "" {
			w.out <- []byte(bytes)
		}
		w.out <- nil
	}
	s.watchers = nil
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(req.URL.Path, "/api/v1/"), "/")
	namespace := ""
	if parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	q := req.URL.Query()
	s.requests = append(s.requests, fmt.Sprintf("%s ns=%q labels=%q fields=%q", parts[0], namespace, q.Get("labelSelector"), q.Get("fieldSelector")))
	if s.kindMissing {
		return respond(http.StatusNotFound, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		}), nil
	}
	label, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	field, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	w := &watcher{
		resource: parts[0], namespace: namespace, label: label, field: field,
		metadata: strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata"),
		out:      make(chan []byte, 10000),
		closed:   make(chan struct{}),
	}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	if q.Get("watch") == "true" {
		return s.watch(req, w, q.Get("sendInitialEvents") == "true", q.Get("resourceVersion")), nil
	}
	items := []any{}
	for _, obj := range s.matching(w) {
		items = append(items, w.represent(obj))
	}
	list := map[string]any{
		"apiVersion": "v1", "kind": kinds[w.resource] + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}
	if w.metadata {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return respond(http.StatusOK, list), nil
}

func (s *server) matching(w *watcher) (objs []*unstructured.Unstructured) {
	for _, id := range slices.Sorted(maps.Keys(s.objects)) {
		if obj := s.objects[id]; w.matches(strings.Split(id, "/")[0], obj) {
			objs = append(objs, obj)
		}
	}
	return objs
}

// watch responds to a watch request. The caller holds mu.
func (s *server) watch(req *http.Request, w *watcher, initial bool, from string) *http.Response {
	if since, _ := strconv.Atoi(from); !initial && since < s.version {
		// There is no history: all older versions have expired.
		return respond(http.StatusGone, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		})
	}
	body, pipe := io.Pipe()
	if initial {
		for _, obj := range s.matching(w) {
			w.send("ADDED", obj)
		}
		w.bookmark(s.version, map[string]any{metav1.InitialEventsAnnotationKey: "true"})
	}
	s.watchers = append(s.watchers, w)
	go func() {
		defer pipe.CloseWithError(io.ErrUnexpectedEOF)
		for {
			select {
			case <-req.Context().Done():
				return
			case <-w.closed:
				return
			case data := <-w.out:
				if data == nil {
					return
				}
				if _, err := pipe.Write(data); err != nil {
					return
				}
			}
		}
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Body: &closer{body, w.close},
		Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
	}
}

// closer notifies the server when the client closes the connection.
type closer struct {
	*io.PipeReader
	closed func()
}

func (c *closer) Close() error {
	c.closed()
	return c.PipeReader.Close()
}

// respond returns a response with a JSON body.
func respond(code int, body any) *http.Response {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Body: io.NopCloser(bytes.NewReader(data)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}
