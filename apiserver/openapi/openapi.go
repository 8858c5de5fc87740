// Package openapi describes the served resources as OpenAPI documents: a document of all resources in version 2, and
// a document for each group version in version 3, with an index.
//
// The schemas of built-in resources come from their Go types, and the operations from their storage. Custom resources
// provide their own documents. A document is built on first use, and its text is cached, compressed, until its resources
// change. A new custom kind rebuilds only the document of its group version, and its part of the document of version 2.
// The handler is safe for concurrent use.
package openapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/NYTimes/gziphandler"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/handler3"

	"flyball.dev/apiserver/resource"
)

const (
	v2Path = "/openapi/v2"
	v3Path = "/openapi/v3"
)

// New returns the handler of /openapi/v2, of the index /openapi/v3 and of the documents below it. The scheme supplies
// the Go types of resources without a scope, and the group versions of shared kinds.
func New(catalog *resource.Catalog, scheme *runtime.Scheme) http.Handler {
	h := &handler{catalog: catalog, models: newModels(scheme)}
	h.v2 = gziphandler.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.documents().v2.serve(w, r) }))
	catalog.OnChange(h.update)
	return h
}

// handler serves the documents. It caches the documents of one snapshot of the catalog.
type handler struct {
	catalog *resource.Catalog
	models  *models
	v2      http.Handler // compresses, as in kube-apiserver, which does not compress the others

	mu      sync.Mutex
	current *documents
}

// documents describe one snapshot of the catalog.
type documents struct {
	generation uint64
	v2         *document
	v3         map[string]versionDocument // by the path of the version, as in apis/apps/v1
	index      *document
	parts      map[*resource.Resource]func() (part, error) // of custom resources
}

// versionDocument is the document of a group and version, with the resources that it describes.
type versionDocument struct {
	*document
	about []*resource.Resource
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	docs := h.documents()
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case v2Path:
		h.v2.ServeHTTP(w, r)
	case v3Path:
		docs.index.serve(w, r)
	default:
		name := strings.TrimPrefix(path, v3Path+"/")
		if one, ok := docs.v3[name]; ok {
			one.serveHashed(w, r, name)
			return
		}
		if strings.HasPrefix(path, v3Path+"/") {
			w.WriteHeader(http.StatusNotFound) // as in kube-apiserver, without a body
			return
		}
		http.NotFound(w, r)
	}
}

// documents returns the documents of the current snapshot. It reuses the documents of unchanged versions.
func (h *handler) documents() *documents {
	h.mu.Lock()
	defer h.mu.Unlock()
	snapshot := h.catalog.Snapshot()
	if h.current == nil || h.current.generation != snapshot.Generation {
		h.current = h.newDocuments(snapshot)
	}
	return h.current
}

// update drops documents of resources that are no longer served.
func (h *handler) update() {
	h.mu.Lock()
	unused := h.current == nil
	h.mu.Unlock()
	if !unused {
		h.documents()
	}
}

// newDocuments returns the documents of a snapshot, kept or not built yet. The caller holds the lock.
func (h *handler) newDocuments(snapshot *resource.Snapshot) *documents {
	docs := &documents{generation: snapshot.Generation, v3: map[string]versionDocument{},
		parts: map[*resource.Resource]func() (part, error){}}
	for _, g := range snapshot.Groups() {
		for _, v := range g.Versions {
			if len(v.Resources) == 0 {
				continue
			}
			h.addParts(docs, v)
			name := strings.TrimPrefix(versionPath(v.GroupVersion), "/")
			if old, ok := h.last(name); ok && slices.Equal(old.about, v.Resources) {
				docs.v3[name] = old
				continue
			}
			docs.v3[name] = versionDocument{newDocument(formatsV3, func() (rope, error) {
				return packedDocument(h.models.v3(v))
			}), v.Resources}
		}
	}
	docs.v2 = newDocument(formatsV2, func() (rope, error) {
		return h.models.v2(snapshot, func(r *resource.Resource) (part, error) { return docs.parts[r]() })
	})
	docs.index = newDocument(formatsIndex, func() (rope, error) { return packedDocument(docs.writeIndex()) })
	return docs
}

// packedDocument compresses a document, unless there is an error.
func packedDocument(text []byte, err error) (rope, error) { return ropeOf(text), err }

// addParts adds the parts of the custom resources of a version. It reuses the parts in the last documents.
func (h *handler) addParts(docs *documents, v *resource.Version) {
	for _, r := range v.Resources {
		if r.OpenAPI == nil || r.Remote {
			continue
		}
		if h.current != nil && h.current.parts[r] != nil {
			docs.parts[r] = h.current.parts[r]
			continue
		}
		docs.parts[r] = sync.OnceValues(func() (part, error) { return newPart(r) })
	}
}

// last returns the document of a version in the previous snapshot.
func (h *handler) last(name string) (versionDocument, bool) {
	if h.current == nil {
		return versionDocument{}, false
	}
	d, ok := h.current.v3[name]
	return d, ok
}

// writeIndex lists the URLs of the documents. Each URL has the hash of the document's content. Documents that cannot be
// built are omitted.
func (d *documents) writeIndex() ([]byte, error) {
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for name, doc := range d.v3 {
		if content := doc.json(); content.err == nil {
			index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: hashedURL(name, content.etag)}
		}
	}
	return json.Marshal(index)
}

func hashedURL(name, etag string) string {
	return v3Path + "/" + name + "?hash=" + url.QueryEscape(etag)
}
