package endpoints

import (
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Writes, lists and watches have two paths. The fast path is our own code for the requests that clients usually send. The
// fallback is the handler of k8s.io/apiserver, which serves every request. For each request that the fast path accepts,
// both have the same result.

// fallback is the error of a request that the fast path does not support. Its value is the reason. The handler of
// k8s.io/apiserver serves the request.
type fallback string

func (f fallback) Error() string { return "left to upstream's handler: " + string(f) }

// The reasons for the fallback, as labels of the metric.
const (
	errSwitchedOff   fallback = "switched-off"
	errUnsupported   fallback = "resource"       // the resource has no fast path, or has it only for creations in this version
	errBody          fallback = "body"           // it is empty
	errParameters    fallback = "parameters"     // of the query
	errOutput        fallback = "output"         // the response is to be converted, or in a format that is not known
	errPath          fallback = "path"           // it has no name or namespace
	errDocument      fallback = "document"       // it cannot be decoded strictly, or does not fit the path
	errManagedFields fallback = "managed-fields" // they are sent, or in a form that is not supported
	errOwners        fallback = "owners"         // more than one, which may be duplicates
	errPatch         fallback = "patch"          // its type, or something in it
	errMissing       fallback = "missing"        // the object does not exist
	errEvents        fallback = "events"         // a watch filters or converts them
	errAudit         fallback = "audit"          // the response is logged
)

// The reasons why the fast path decodes the objects of a list, or of the initial events of a watch, as labels of the metric. Without a
// reason, it decodes only objects that are not stored as the client wants them.
const (
	decodedVersion fallback = "version" // the served version is not the stored one
	decodedShared  fallback = "shared"  // the client, in this process, shares decoded objects
)

// whyDecoded returns the reason why the objects of a store must be decoded for a served version.
func whyDecoded(store *registry.Store, scope *handlers.RequestScope) fallback {
	kinds, _, err := scope.Typer.ObjectKinds(store.New())
	if err != nil || len(kinds) == 0 || kinds[0] != scope.Kind {
		return decodedVersion
	}
	return ""
}

// requests counts the requests to handlers with a fast path, by the path that served them.
var requests = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "flyball",
	Subsystem:      "apiserver",
	Name:           "path_requests_total",
	Help:           "Writes, lists and watches by path, fast or fallback, with the reason for the fallback, or for decoding all listed objects on the fast path.",
	StabilityLevel: metrics.ALPHA,
}, []string{"path", "reason", "verb", "group", "version", "resource", "subresource"})

// registerMetrics registers the metrics of this package. They are global to the process, like all component-base
// metrics.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(requests) })

// countPath counts a request. The reason is empty for the fast path.
func countPath(r *http.Request, reason fallback) {
	if reason != "" {
		count(r, "fallback", reason)
		return
	}
	countFast(r, "")
}

// countFast counts a request on the fast path, with the reason for decoding objects, or none.
func countFast(r *http.Request, decoded fallback) { count(r, "fast", decoded) }

func count(r *http.Request, path string, reason fallback) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		return
	}
	requests.WithLabelValues(path, string(reason), info.Verb, info.APIGroup, info.APIVersion, info.Resource, info.Subresource).Inc()
}

// fallBack returns a handler that passes every request to next and counts it.
func fallBack(reason fallback, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		countPath(r, reason)
		next(w, r)
	}
}
