package resource

import (
	"maps"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/registry/rest"
)

// connectVerbs maps the HTTP methods of connections to authorization verbs.
var connectVerbs = map[string]string{
	http.MethodGet:    "get",
	http.MethodPost:   "create",
	http.MethodPut:    "update",
	http.MethodPatch:  "patch",
	http.MethodDelete: "delete",
}

// ServedVerbs returns the verbs of the resource in alphabetical order: the verbs that its storage implements,
// restricted to Verbs.
func (r *Resource) ServedVerbs() []string {
	if r.Remote {
		return slices.Sorted(slices.Values(r.Verbs))
	}
	verbs := map[string]bool{}
	add := func(verb string, ok bool) {
		if ok && (r.Verbs == nil || slices.Contains(r.Verbs, verb)) {
			verbs[verb] = true
		}
	}
	add("create", implements[rest.Creater](r) || implements[rest.NamedCreater](r))
	add("delete", implements[rest.GracefulDeleter](r))
	add("deletecollection", implements[rest.CollectionDeleter](r))
	add("get", implements[rest.Getter](r) || implements[rest.GetterWithOptions](r))
	add("list", implements[rest.Lister](r))
	add("patch", implements[rest.Patcher](r))
	add("update", implements[rest.Updater](r))
	add("watch", implements[rest.Watcher](r))
	if c, ok := r.Storage.(rest.Connecter); ok {
		for _, method := range c.ConnectMethods() {
			verb, known := connectVerbs[method]
			add(verb, known)
		}
	}
	return slices.Sorted(maps.Keys(verbs))
}

func implements[T any](r *Resource) bool {
	_, ok := r.Storage.(T)
	return ok
}
