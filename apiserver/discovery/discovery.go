// Package discovery serves the server's version and the discovery documents of the catalog, both aggregated and by
// group version.
//
// The documents describe one snapshot of the catalog, and the first request after a change builds them. The handler is
// safe for concurrent use.
package discovery

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"flyball.dev/apiserver/resource"
)

// New returns the handler of /api, /api/VERSION, /apis, /apis/GROUP, /apis/GROUP/VERSION and
// /version. It supports the serializer's media types. Requests for a group or version that is not in
// the catalog go to notFound.
func New(catalog *resource.Catalog, serializer runtime.NegotiatedSerializer, notFound http.Handler) http.Handler {
	return &handler{catalog: catalog, serializer: serializer, notFound: notFound}
}

// handler serves discovery. It caches the documents of one snapshot of the catalog.
//
//upstream:k8s.io/apiserver/pkg/endpoints/discovery.rootAPIsHandler
//upstream:k8s.io/apiserver/pkg/endpoints/discovery.APIGroupHandler
//upstream:k8s.io/apiserver/pkg/endpoints/discovery.APIVersionHandler
//upstream:k8s.io/apiserver/pkg/endpoints/discovery.legacyRootAPIHandler
type handler struct {
	catalog    *resource.Catalog
	serializer runtime.NegotiatedSerializer
	notFound   http.Handler
	current    atomic.Pointer[documents]
}

// ServeHTTP serves a discovery document or the version.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path == "/version" {
		responsewriters.WriteRawJSON(http.StatusOK, Version(), w)
		return
	}
	docs := h.documents()
	all, isRoot := docs.aggregated[path]
	media, info, err := negotiation.NegotiateOutputMediaType(r, h.serializer, restrictions{aggregated: isRoot})
	if err != nil {
		status := responsewriters.ErrorToAPIStatus(err)
		responsewriters.WriteRawJSON(int(status.Code), status, w)
		return
	}
	switch obj := docs.objects[path]; {
	case media.Convert != nil:
		w.Header().Set("Vary", "Accept")
		all.serve(w, r, info)
	case path == "/api":
		h.write(w, r, info, apiVersions(r))
	case obj != nil:
		h.write(w, r, info, obj)
	default:
		h.notFound.ServeHTTP(w, r)
	}
}

// write encodes an object without setting its kind and version: some documents have a kind without a version.
func (h *handler) write(w http.ResponseWriter, r *http.Request, info runtime.SerializerInfo, obj runtime.Object) {
	responsewriters.SerializeObject(info.MediaType, info.Serializer, w, r, http.StatusOK, obj)
}

// documents returns the documents of the current snapshot.
func (h *handler) documents() *documents {
	snapshot := h.catalog.Snapshot()
	if docs := h.current.Load(); docs != nil && docs.generation == snapshot.Generation {
		return docs
	}
	docs := newDocuments(snapshot)
	h.current.Store(docs)
	return docs
}

// apiVersions returns the root of the core group, with the address of the request.
func apiVersions(r *http.Request) *metav1.APIVersions {
	return &metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
	}
}

var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

// restrictions allow one media type parameter: as=APIGroupDiscoveryList, for the aggregated form of a root.
type restrictions struct{ aggregated bool }

func (a restrictions) AllowsMediaTypeTransform(_, _ string, target *schema.GroupVersionKind) bool {
	return target == nil || a.aggregated && *target == aggregatedKind
}
func (restrictions) AllowsServerVersion(string) bool { return false }
func (restrictions) AllowsStreamSchema(string) bool  { return false }

// serve writes the list, or 304 Not Modified if the client already has it.
//
//upstream:k8s.io/apiserver/pkg/endpoints/discovery/aggregated.ServeHTTPWithETag
func (l *aggregated) serve(w http.ResponseWriter, r *http.Request, info runtime.SerializerInfo) {
	tag := strconv.Quote(l.etag())
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	mediaType := info.MediaType + ";g=" + aggregatedKind.Group + ";v=" + aggregatedKind.Version + ";as=" +
		aggregatedKind.Kind
	responsewriters.SerializeObject(mediaType, info.Serializer, w, r, http.StatusOK, l.list)
}
