package apiserver

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"flyball.dev/apiserver/store"
	"flyball.dev/internal/inprocess"
	"flyball.dev/storage"
)

// authorizedFor is how long a stream goes on before its user is authorized again. The watches of client-go end after 5 to 10
// minutes.
const authorizedFor = 10 * time.Minute

// Observer returns an observer of the stored objects for a user in the process, or nil if the storage consists of several
// stores, which have no common order. A stream is no request: it is neither in the audit log nor in the metrics of requests.
func (s *Server) Observer(u user.Info) inprocess.Observer {
	if _, ok := s.options.Storage.(storage.Partitioned); ok {
		return nil
	}
	return &observer{s, u}
}

// observer implements inprocess.Observer.
type observer struct {
	server *Server
	user   user.Info
}

// Stores implements [inprocess.Observer].
func (o *observer) Stores(gv schema.GroupVersion) bool {
	for _, g := range o.server.catalog.Snapshot().Versions() {
		if g.Name != gv.Group {
			continue
		}
		for _, v := range g.Versions {
			if v.GroupVersion == gv {
				return !v.Remote()
			}
		}
	}
	return false
}

// Replaced implements [inprocess.Observer].
func (o *observer) Replaced() <-chan struct{} { return o.server.catalog.Snapshot().Replaced() }

// Observe implements [inprocess.Observer].
func (o *observer) Observe(ctx context.Context) (inprocess.Stream, error) {
	w, err := o.server.options.Storage.Watch(ctx, store.Root, 0)
	if err != nil {
		return nil, err
	}
	return &observation{observer: o, watcher: w, observed: map[string]*observed{}, authorized: time.Now()}, nil
}

// observation is a stream of one watcher of all keys.
type observation struct {
	*observer
	watcher    storage.Watcher
	observed   map[string]*observed // by the path of their keys
	authorized time.Time            // when the permissions of the user were checked last
}

// observed is a resource of a stream.
type observed struct {
	resource schema.GroupVersionResource
	metadata store.MetadataReader
	listed   uint64 // the revision of its list
}

var _ inprocess.Stream = (*observation)(nil)

// Add implements [inprocess.Stream].
func (o *observation) Add(ctx context.Context, r schema.GroupVersionResource, visit func(*metav1.PartialObjectMetadata)) error {
	path := store.Path(r.GroupResource())
	delete(o.observed, path)
	if !o.Stores(r.GroupVersion()) {
		return apierrors.NewNotFound(r.GroupResource(), "")
	}
	if err := o.authorize(ctx, r); err != nil {
		return err
	}
	added := &observed{resource: r, metadata: store.MetadataReader{Transformer: store.Transformer(o.server.options.Transformers, r.GroupResource())}}
	page, err := o.server.options.Storage.Range(ctx, storage.Query{Path: path, Scan: true})
	if err != nil {
		return err
	}
	for i, record := range page.Records {
		page.Records[i] = nil // replaced records need not stay
		object, err := added.metadata.Read(ctx, record)
		if err != nil {
			return err
		}
		visit(object)
	}
	added.listed = page.Revision
	o.observed[path] = added
	return nil
}

// Remove implements [inprocess.Stream].
func (o *observation) Remove(r schema.GroupResource) { delete(o.observed, store.Path(r)) }

// Ready implements [inprocess.Stream].
func (o *observation) Ready() <-chan struct{} { return o.watcher.Ready() }

// Close implements [inprocess.Stream].
func (o *observation) Close() { o.watcher.Close() }

// Next implements [inprocess.Stream].
func (o *observation) Next(ctx context.Context, visit func(inprocess.Change)) (more bool, err error) {
	events, _, err := o.watcher.Next()
	if err != nil || len(events) == 0 {
		return false, err
	}
	if err := o.authorizeAgain(ctx); err != nil {
		return false, err
	}
	for _, e := range events {
		path, of := o.find(e.Record.Key)
		if of == nil || e.Record.Revision <= of.listed {
			continue
		}
		change := inprocess.Change{Resource: of.resource.GroupResource(), Deleted: e.Type == storage.Deleted}
		if change.Object, change.Err = of.metadata.Read(ctx, e.Record); change.Err != nil {
			delete(o.observed, path)
		}
		visit(change)
	}
	return true, nil
}

// find returns the resource of a key, with its path. A path has two elements, as in /registry/pods/, or three, as in
// /registry/example.com/widgets/.
func (o *observation) find(key string) (path string, _ *observed) {
	end := len(store.Root)
	for range 2 {
		n := strings.IndexByte(key[end:], '/')
		if n < 0 {
			break
		}
		end += n + 1
		if of := o.observed[key[:end]]; of != nil {
			return key[:end], of
		}
	}
	return "", nil
}

// authorizeAgain checks the permissions of the user once in authorizedFor.
func (o *observation) authorizeAgain(ctx context.Context) error {
	if time.Since(o.authorized) < authorizedFor {
		return nil
	}
	for _, of := range o.observed {
		if err := o.authorize(ctx, of.resource); err != nil {
			return err
		}
	}
	o.authorized = time.Now()
	return nil
}

// authorize returns an error unless the user may list and watch a resource in all namespaces.
func (o *observation) authorize(ctx context.Context, r schema.GroupVersionResource) error {
	for _, verb := range []string{"list", "watch"} {
		request := authorizer.AttributesRecord{User: o.user, Verb: verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, ResourceRequest: true}
		switch decision, reason, err := o.server.access.Authorize(ctx, request); {
		case decision == authorizer.DecisionAllow:
		case err != nil:
			return apierrors.NewForbidden(r.GroupResource(), "", err)
		default:
			return responsewriters.ForbiddenStatusError(request, reason)
		}
	}
	return nil
}
