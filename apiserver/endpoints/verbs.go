package endpoints

import (
	"context"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// verbs are the handlers of one resource by verb.
type verbs map[string]http.HandlerFunc

// forcedWatch is the verb of a watch by path (/watch/...) instead of by parameter.
const forcedWatch = "/watch"

// verbsFor returns the handlers of the verbs that a resource's storage implements. The write handlers of
// k8s.io/apiserver wrap admission again with every request they serve, so each request gets a new handler.
//
//upstream:k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers
func verbsFor(r *resource.Resource, admit admission.Interface, o Options) verbs {
	v := writingVerbs(r, admit, o)
	maps.Copy(v, readingVerbs(r, !o.WithoutFastPath))
	served := r.ServedVerbs()
	maps.DeleteFunc(v, func(verb string, _ http.HandlerFunc) bool {
		return verb != forcedWatch && verb != connect && !slices.Contains(served, verb)
	})
	return v
}

// readingVerbs returns the handlers of the verbs that read.
func readingVerbs(r *resource.Resource, fast bool) verbs {
	v := verbs{}
	switch storage := r.Storage.(type) {
	case rest.GetterWithOptions:
		v["get"] = handlers.GetResourceWithOptions(storage, r.Scope, r.Scope.Subresource != "")
	case rest.Getter:
		v["get"] = handlers.GetResource(storage, r.Scope)
	}
	lister, lists := r.Storage.(rest.Lister)
	watcher, watches := r.Storage.(rest.Watcher)
	if lists {
		if v["list"] = buffered(handlers.ListResource(lister, watcher, r.Scope, false, minWatch)); fast {
			v["list"] = listHandler(lister, r.Scope, v["list"])
		} else {
			v["list"] = fallBack(errSwitchedOff, v["list"])
		}
	}
	if watches {
		for verb, forced := range map[string]bool{"watch": false, forcedWatch: true} {
			if v[verb] = handlers.ListResource(lister, watcher, r.Scope, forced, minWatch); fast {
				v[verb] = watchHandler(watcher, r.Scope, forced, v[verb])
			} else {
				v[verb] = fallBack(errSwitchedOff, v[verb])
			}
		}
	}
	return v
}

// writingVerbs returns the handlers of the verbs that write.
func writingVerbs(r *resource.Resource, admit admission.Interface, o Options) verbs {
	v := verbs{}
	each := func(verb string, handler func() http.HandlerFunc) {
		v[verb] = func(w http.ResponseWriter, req *http.Request) { handler()(w, req) }
	}
	own, fast := writer{resource: r, admission: admit}, !o.WithoutFastPath
	if o.Audited {
		own.admission = admission.WithAudit(admit)
	}
	quicker := func(verb string, status int, serve func(context.Context, *write) (runtime.Object, error)) {
		switch {
		case !fast:
			v[verb] = fallBack(errSwitchedOff, v[verb])
		case r.ManagedFields == nil:
			v[verb] = fallBack(errUnsupported, v[verb])
		default:
			v[verb] = own.serve(status, serve, v[verb])
		}
	}
	switch storage := r.Storage.(type) {
	case rest.NamedCreater:
		each("create", func() http.HandlerFunc { return handlers.CreateNamedResource(storage, r.Scope, admit) })
		quicker("create", http.StatusCreated, func(ctx context.Context, w *write) (runtime.Object, error) {
			return w.create(ctx, func(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
				options *metav1.CreateOptions) (runtime.Object, error) {
				return storage.Create(ctx, w.name, obj, validate, options)
			})
		})
	case rest.Creater:
		each("create", func() http.HandlerFunc { return handlers.CreateResource(storage, r.Scope, admit) })
		quicker("create", http.StatusCreated, func(ctx context.Context, w *write) (runtime.Object, error) { return w.create(ctx, w.creation(storage)) })
	}
	if storage, ok := r.Storage.(rest.Updater); ok {
		each("update", func() http.HandlerFunc { return handlers.UpdateResource(storage, r.Scope, admit) })
		quicker("update", http.StatusOK, func(ctx context.Context, w *write) (runtime.Object, error) { return w.update(ctx, storage) })
	}
	if storage, ok := r.Storage.(rest.Patcher); ok {
		scope := *r.Scope
		scope.Serializer = depthLimitedSerializer{r.Scope.Serializer, r.OpenAPI == nil}
		v["patch"] = func(w http.ResponseWriter, req *http.Request) {
			handlers.PatchResource(newPatchStorage(storage, req), &scope, admit, r.PatchTypes)(w, req)
		}
		quicker("patch", http.StatusOK, func(ctx context.Context, w *write) (runtime.Object, error) { return w.patch(ctx, storage) })
	}
	if storage, ok := r.Storage.(rest.GracefulDeleter); ok {
		each("delete", func() http.HandlerFunc { return handlers.DeleteResource(storage, true, r.Scope, admit) })
	}
	if storage, ok := r.Storage.(rest.Connecter); ok {
		each(connect, func() http.HandlerFunc { return handlers.ConnectResource(storage, r.Scope, admit, "", true) })
	}
	if storage, ok := r.Storage.(rest.CollectionDeleter); ok {
		each("deletecollection", func() http.HandlerFunc { return handlers.DeleteCollection(storage, true, r.Scope, admit) })
	}
	return v
}
