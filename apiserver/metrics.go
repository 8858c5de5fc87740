package apiserver

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	handlersmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/registry/rest"
	upstream "k8s.io/apiserver/pkg/storage"
	storagemetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// registerMetrics registers the metrics of the handlers of k8s.io/apiserver. Like all component-base metrics, they are
// global to the process.
var registerMetrics = sync.OnceFunc(func() {
	metrics.Register()
	handlersmetrics.Register()
	storagemetrics.Register()
	legacyregistry.MustRegister(historyBytes)
})

// historyBytes is the size of the replaced and deleted objects that the storage keeps in memory.
var historyBytes = componentmetrics.NewGauge(&componentmetrics.GaugeOpts{
	Namespace:      "flyball",
	Subsystem:      "storage",
	Name:           "history_bytes",
	Help:           "Approximate size of the replaced and deleted objects that the storage keeps in memory for watches and for lists of the past.",
	StabilityLevel: componentmetrics.ALPHA,
})

// gauges are the metrics that are measured at each scrape.
type gauges struct {
	server *Server

	mu      sync.Mutex
	counted map[schema.GroupResource]bool
}

// metricsHandler serves the metrics of the process. As in kube-apiserver, DELETE resets them.
func (s *Server) metricsHandler() http.Handler {
	registerMetrics()
	g := &gauges{server: s, counted: map[schema.GroupResource]bool{}}
	registry := legacyregistry.HandlerWithReset()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.measure(r.Context())
		registry.ServeHTTP(w, r)
	})
}

// measure sets the number of requests in flight, the size of the history, and the number of stored objects of each resource.
func (g *gauges) measure(ctx context.Context) {
	metrics.UpdateInflightRequestMetrics(metrics.ExecutingPhase, g.server.reading.inFlight(), g.server.mutating.inFlight())
	if h, ok := g.server.options.Storage.(storage.Historian); ok {
		historyBytes.Set(float64(h.HistorySize()))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	counted := map[schema.GroupResource]bool{}
	for _, group := range g.server.catalog.Snapshot().Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				gr := r.GroupVersionResource().GroupResource()
				if _, lists := r.Storage.(rest.Lister); !lists || counted[gr] {
					continue
				}
				counted[gr] = true
				page, err := g.server.options.Storage.Range(ctx, storage.Query{Path: store.Path(gr), Limit: 1})
				storagemetrics.UpdateStoreStats(gr, upstream.Stats{ObjectCount: int64(len(page.Records) + page.Remaining)}, err)
			}
		}
	}
	for gr := range g.counted {
		if !counted[gr] {
			storagemetrics.DeleteStoreStats(gr)
		}
	}
	g.counted = counted
}
