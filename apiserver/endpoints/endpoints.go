// Package endpoints routes requests for resources to the handlers of their verbs.
//
// Writes, lists and watches have two paths. The fast path serves the usual requests, and has no semantics of its own.
// The fallback is upstream's handler. It serves all other requests, and invalid ones. The metric
// flyball_apiserver_path_requests_total counts requests by path and by the reason for the fallback. The option
// WithoutFastPath leaves every request to the fallback. A test that compares the paths requires the path that each
// request took (package endpointstest).
//
// # Writes
//
// write.go serves creates, updates and patches of objects and of their status, on the goroutine of the request and with
// the same stages for all verbs. It applies a merge patch to the Go value instead of its JSON. store.go updates
// existing objects as the registry does, and createstore.go creates them, without the registry's copies for admission
// and for the response. In a version that is not the stored one, such as an Event of events.k8s.io, only creates have
// the fast path.
//
// TestFastPath sends the same random writes to two servers, one of them without the fast path, checks the path of each
// write, and compares responses, objects, events and the audit log. TestManagedFieldsOfUpdates and
// TestMergePatchesOfAllKinds do this for managed fields and merge patches of all kinds. The scripts of the module
// test/oracle run over both paths (TestRecorded).
//
// # Lists
//
// list.go serves lists as JSON, protobuf, tables and metadata. A list keeps at most 16 decoded objects, and none of
// its encoding but a buffer. Package store gives it the stored bytes. For tables, objects are decoded without managed fields, for
// their cells only: the metadata of a row is made from the stored bytes too (tablerows.go). Upstream's handler serves
// YAML, CBOR and lists that the audit log records.
//
// TestListsAsUpstream compares lists of all kinds with upstream's handler, byte for byte. TestCustomListsAsUpstream does so
// while definitions change under stored objects. TestRandomLists compares random lists between random writes, and
// TestRandomListsOfDirectory does so on a data directory. TestAgainstJSON compares random objects of all kinds with
// encoding/json.
//
// # Watches
//
// watch.go serves watches. The goroutine of a watch reads events from the store and writes frames. A frame is encoded
// once for all watchers. The frames of initial events are made from the stored bytes, as lists are (storedevent.go):
// informers list by such a watch. TestWatchListsAsUpstream compares the initial events of all kinds with upstream's, and
// TestPausedWatchesAsUpstream watches during which others write. The watches of the control plane's own controllers get
// shallow copies of the stored objects instead, if these are the objects that the client would decode: the body of the
// response is an inprocess.EventReader. The controllers must not change what the objects refer to: TestSharedObjectsStay,
// and KUBE_CACHE_MUTATION_DETECTOR=true go test ./controllers/... check this. A client of a user shares nothing
// (TestObjectsOfUsers). Upstream's handler serves tables, metadata, CBOR and WebSockets.
//
// TestWatchesAsUpstream compares the bytes with upstream's. The metric of the paths also says why the fast path decodes
// all objects of a list or of initial events: the version is not the stored one, or the client shares objects.
//
// # Bounds
//
// A document has at most 128 levels (depth.go), because managed fields cost the square of the levels. YAML has at most
// 3 MB with expanded aliases, counted before the expansion (yaml.go). Lists that are merged, moved or compared pairwise
// have bounds (patchcost.go), and so have errors (resource.Bounded).
package endpoints

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/resource"
)

// minWatch is the minimum of the random timeout of a watch without a timeout parameter.
const minWatch = 30 * time.Minute

// Handler serves all resources of a catalog. It needs the RequestInfo in the request context. A change of the catalog
// takes effect with the next request.
type Handler struct {
	catalog    *resource.Catalog
	admission  func(schema.GroupResource) admission.Interface
	serializer runtime.NegotiatedSerializer
	notFound   http.Handler
	options    Options
	// mediaTypes are the media types of the serializer. listMediaTypes also has the media types of watches.
	mediaTypes, listMediaTypes []string

	mu    sync.RWMutex
	verbs map[*resource.Resource]verbs
}

// Options choose how a [Handler] serves requests.
type Options struct {
	// WithoutFastPath serves every request with the handlers of k8s.io/apiserver. The responses are the same.
	WithoutFastPath bool
	// Audited says that the annotations of admission plugins are recorded in an audit log.
	Audited bool
}

// New returns the handler for a catalog. admit returns the admission of a resource and its subresources. notFound serves requests for
// resources that are not in the catalog. serializer encodes errors about the request itself.
func New(catalog *resource.Catalog, admit func(schema.GroupResource) admission.Interface, serializer runtime.NegotiatedSerializer,
	notFound http.Handler, o Options) *Handler {
	registerMetrics()
	types, streams := negotiation.MediaTypesForSerializer(serializer)
	h := &Handler{catalog: catalog, admission: admit, serializer: serializer, notFound: notFound, options: o,
		mediaTypes: types, listMediaTypes: slices.Concat(types, streams), verbs: map[*resource.Resource]verbs{}}
	catalog.OnChange(h.prune)
	return h
}

// ServeHTTP calls the handler for the resource and the verb of the request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest {
		h.notFound.ServeHTTP(w, r)
		return
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	snapshot := h.catalog.Snapshot()
	served, ok := snapshot.Lookup(gvr)
	if !ok || !scopeMatches(served, info) {
		h.notFound.ServeHTTP(w, r)
		return
	}
	custom := served.OpenAPI != nil
	if info.Subresource != "" {
		if served = served.Subresource(info.Subresource); served == nil && custom {
			responsewriters.ErrorNegotiated(errors.NewNotFound(gvr.GroupResource(), info.Name),
				h.serializer, gvr.GroupVersion(), w, r)
			return
		}
		if served == nil || !scopeMatches(served, info) || len(info.Parts) > 3 && !hasPath(served) {
			h.notFound.ServeHTTP(w, r)
			return
		}
	}
	if served.Warning != "" {
		warning.AddWarning(r.Context(), "", served.Warning)
	}
	handle := h.verbsOf(snapshot, served)[verbOf(r, info, served)]
	if handle == nil || !methodMatches(served, r.Method) || !namespaceMatches(served, info) || !nameMatches(served, info) {
		responsewriters.ErrorNegotiated(methodNotAllowed(served, gvr.GroupResource(), info.Verb),
			h.serializer, gvr.GroupVersion(), w, r)
		return
	}
	if !custom {
		if err := h.checkMediaTypes(r, served, info.Verb); err != nil {
			responsewriters.ErrorNegotiated(err, h.serializer, gvr.GroupVersion(), w, r)
			return
		}
	}
	monitored(w, r, info, func(w http.ResponseWriter) {
		if hasBody(info.Verb) && !isConnection(served) {
			err := readBody(r, served.Scope.MaxRequestBodyBytes)
			if body, ok := r.Body.(*bufferedBody); ok && err == nil && !custom {
				err = checkObjects(r.Header.Get("Content-Type"), body.bytes)
			}
			if err != nil {
				responsewriters.ErrorNegotiated(err, h.serializer, gvr.GroupVersion(), w, r)
				return
			}
		}
		handle(w, r)
	})
}

// methodNotAllowed returns the error for a method that a path does not support. As in kube-apiserver, only the error
// for custom resources names the resource.
//
//upstream:k8s.io/apimachinery/pkg/api/errors.NewMethodNotSupported
func methodNotAllowed(r *resource.Resource, gr schema.GroupResource, verb string) error {
	if r.OpenAPI != nil {
		return errors.NewMethodNotSupported(gr, verb)
	}
	return errors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// hasBody reports whether requests of a verb have a body.
func hasBody(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// scopeMatches reports whether the path fits the scope of the resource. The path of a cluster-scoped resource has no
// namespace, and the path of a single namespaced object has one. Without a namespace, the path of a namespaced resource
// supports only lists and watches: for other verbs, the path of a custom resource is not found, and the path of a
// built-in resource does not support the method.
func scopeMatches(r *resource.Resource, info *request.RequestInfo) bool {
	if r.OpenAPI != nil && !namespaceMatches(r, info) {
		return false
	}
	if r.ListKind == "" && info.Subresource == "" && (pathName(info) != "" || r.Namespaced && info.Namespace == "") {
		return false // a resource that supports only create has a single path
	}
	if !r.Namespaced {
		return info.Namespace == "" || info.Resource == "namespaces"
	}
	return info.Namespace != "" || pathName(info) == ""
}

// namespaceMatches reports whether the path has a namespace if the verb needs one.
func namespaceMatches(r *resource.Resource, info *request.RequestInfo) bool {
	return !r.Namespaced || info.Namespace != "" || info.Verb == "list" || info.Verb == "watch"
}

// nameMatches reports whether the path has a name if and only if the verb needs one in the path.
func nameMatches(r *resource.Resource, info *request.RequestInfo) bool {
	switch info.Verb {
	case "create":
		_, takesName := r.Storage.(rest.NamedCreater)
		return (pathName(info) != "") == (takesName || info.Subresource != "")
	case "update", "patch":
		return pathName(info) != ""
	default:
		return true
	}
}

// pathName returns the name in the path. For a list, RequestInfo.Name may come from the field selector.
func pathName(info *request.RequestInfo) string {
	if len(info.Parts) > 1 {
		return info.Parts[1]
	}
	return ""
}

// verbOf returns the verb of the request's handler: [connect] for connections, [forcedWatch] for the older watch paths,
// and the verb of the request otherwise.
func verbOf(r *http.Request, info *request.RequestInfo, served *resource.Resource) string {
	if isConnection(served) {
		return connect
	}
	if info.Verb == "watch" && !strings.Contains(r.URL.RawQuery, "watch=") {
		return forcedWatch
	}
	return info.Verb
}

// verbsOf returns the handlers of a resource. It makes them for the first request.
func (h *Handler) verbsOf(snapshot *resource.Snapshot, r *resource.Resource) verbs {
	h.mu.RLock()
	v, ok := h.verbs[r]
	h.mu.RUnlock()
	if ok {
		return v
	}
	v = verbsFor(r, h.admission(r.Scope.Resource.GroupResource()), h.options)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.catalog.Snapshot() == snapshot { // otherwise prune may have run, and would not drop it
		h.verbs[r] = v
	}
	return v
}

// prune drops the handlers of resources that are no longer served.
func (h *Handler) prune() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.verbs) == 0 {
		return
	}
	served := make(map[*resource.Resource]verbs, len(h.verbs))
	keep := func(r *resource.Resource) {
		if v, ok := h.verbs[r]; ok {
			served[r] = v
		}
	}
	for r := range h.catalog.Snapshot().Made() {
		keep(r)
		for _, s := range r.Subresources {
			keep(s)
		}
	}
	h.verbs = served
}
