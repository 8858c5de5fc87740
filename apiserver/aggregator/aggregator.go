// Package aggregator serves the group versions of extension API servers according to their APIServices: it proxies
// requests to the Services, checks their availability, and adds their resources to the catalog.
//
// If a Service does not answer, its group versions are stale in discovery, and a namespace that may have objects of
// them is not finalized. The server identifies itself by a client certificate of an authority of its own, which the
// ConfigMap extension-apiserver-authentication publishes.
package aggregator

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/request"
	proxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/streaming/pkg/httpstream"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/apiserver/webhook"
	"flyball.dev/storage"
)

// retryInterval is the time after which a watch that has failed is tried again.
const retryInterval = time.Second

// interval is the time between availability checks of a Service without changes, as in kube-apiserver.
const interval = 30 * time.Second

// Config connects an [Aggregator] to the server.
type Config struct {
	Catalog  *resource.Catalog
	Services webhook.Services
	// Dial connects to Services.
	Dial webhook.DialFunc
	// Certificate and Key, in PEM, identify the server to extension API servers.
	Certificate, Key []byte
	// Store holds the objects, for watches.
	Store storage.Store
	// List returns all APIServices, and UpdateStatus changes the status of one.
	List         func(context.Context) ([]apiregistrationv1.APIService, error)
	UpdateStatus func(ctx context.Context, name string, change func(*apiregistrationv1.APIService)) error
	// Delay is the time until the APIServices are read first, unless one of them changes. It is for a server that starts
	// with the objects of a server without remote group versions.
	Delay time.Duration
}

// Aggregator serves the group versions of extension API servers. It is safe for concurrent use.
type Aggregator struct {
	config  Config
	remotes atomic.Pointer[map[schema.GroupVersion]*remote]
	delayed bool // Run has waited for Config.Delay
}

// New returns an aggregator. It serves nothing before Run.
func New(c Config) *Aggregator {
	a := &Aggregator{config: c}
	a.remotes.Store(&map[schema.GroupVersion]*remote{})
	return a
}

// Wrap returns a handler that proxies requests for remote group versions, and passes all other requests to next.
func (a *Aggregator) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remotes := *a.remotes.Load()
		if len(remotes) > 0 {
			if found, ok := remotes[groupVersionOf(r.URL.Path)]; ok {
				a.proxy(found, w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// groupVersionOf returns the group version in a path below /apis, or the zero value.
func groupVersionOf(path string) (gv schema.GroupVersion) {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return gv
	}
	gv.Group, rest, _ = strings.Cut(rest, "/")
	gv.Version, _, _ = strings.Cut(rest, "/")
	return gv
}

// proxy sends a request to the Service, with the user in the headers.
//
//upstream:k8s.io/kube-aggregator/pkg/apiserver.proxyHandler.ServeHTTP
func (a *Aggregator) proxy(to *remote, w http.ResponseWriter, r *http.Request) {
	if !to.available() {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	user, ok := request.UserFrom(r.Context())
	if !ok {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	endpoint, err := a.config.Services.ResolveEndpoint(to.service.Namespace, to.service.Name, *to.service.Port)
	if err != nil {
		klog.ErrorS(err, "The Service of an APIService cannot be resolved", "namespace", to.service.Namespace, "name", to.service.Name)
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	location := &url.URL{Scheme: "https", Host: endpoint.Host, Path: r.URL.Path, RawQuery: r.URL.Query().Encode()}
	out, cancel := proxyutil.NewRequestForProxy(location, r)
	defer cancel()
	upgrade := httpstream.IsUpgradeRequest(r)
	if upgrade { // which does not use the round tripper
		transport.SetAuthProxyHeaders(out, user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra())
	}
	identified := transport.NewAuthProxyRoundTripper(user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra(), to.transport)
	proxy.NewUpgradeAwareHandler(location, identified, true, upgrade, responder{w}).ServeHTTP(w, out)
}

// responder writes the error response if a Service does not answer.
//
//upstream:k8s.io/kube-aggregator/pkg/apiserver.responder
type responder struct{ http.ResponseWriter }

func (r responder) Error(_ http.ResponseWriter, _ *http.Request, err error) {
	http.Error(r.ResponseWriter, err.Error(), http.StatusServiceUnavailable)
}

// Run keeps the remotes up to date with the APIServices until ctx ends.
func (a *Aggregator) Run(ctx context.Context) {
	defer a.replace(nil)
	for ctx.Err() == nil {
		err := a.follow(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		klog.ErrorS(err, "The APIServices cannot be watched")
		if errors.Is(err, storage.ErrClosed) {
			return
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}

// watched are the paths of the objects that availability depends on.
var watched = []string{
	store.Path(apiregistrationv1.Resource("apiservices")),
	store.Path(corev1.Resource("services")),
	store.Path(discoveryv1.Resource("endpointslices")),
}

// follow checks the remote APIServices whenever one of them or its Service changes, and periodically. It returns nil if
// a watch has expired.
func (a *Aggregator) follow(ctx context.Context) error {
	var watchers []storage.Watcher
	defer func() {
		for _, w := range watchers {
			w.Close()
		}
	}()
	for _, path := range watched {
		w, err := a.config.Store.Watch(ctx, path, 0)
		if err != nil {
			return err
		}
		watchers = append(watchers, w)
	}
	if a.config.Delay > 0 && !a.delayed {
		a.delayed = true
		if expired, err := a.wait(ctx, watchers, a.config.Delay); expired || err != nil || ctx.Err() != nil {
			return err
		}
	}
	for {
		if err := a.sync(ctx); err != nil {
			return err
		}
		if expired, err := a.wait(ctx, watchers, a.nextCheck()); expired || err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// Remotes reports whether there are remote group versions.
func (a *Aggregator) Remotes() bool { return len(*a.remotes.Load()) > 0 }

// nextCheck returns the time until the next periodic check, or zero for none.
func (a *Aggregator) nextCheck() time.Duration {
	if a.Remotes() {
		return interval
	}
	return 0
}

// wait returns when an APIService or an object that a remote one depends on has changed, or after the limit if there is one.
func (a *Aggregator) wait(ctx context.Context, watchers []storage.Watcher, limit time.Duration) (expired bool, err error) {
	var again <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		again = timer.C
	}
	for {
		changed := false
		for i, w := range watchers {
			for {
				events, _, err := w.Next()
				if err != nil {
					return errors.Is(err, storage.ErrCompacted), nil
				}
				for _, e := range events {
					changed = changed || i == 0 || a.concerns(strings.TrimPrefix(e.Record.Key, watched[i]))
				}
				if len(events) == 0 {
					break
				}
			}
		}
		if changed {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-again:
			return false, nil
		case <-watchers[0].Ready():
		case <-watchers[1].Ready():
		case <-watchers[2].Ready():
		}
	}
}

// concerns reports whether the Service of any remote APIService is in the namespace of a key.
func (a *Aggregator) concerns(key string) bool {
	namespace, _, _ := strings.Cut(key, "/")
	for _, r := range *a.remotes.Load() {
		if r.service.Namespace == namespace {
			return true
		}
	}
	return false
}

// sync brings the remotes up to date with the APIServices, and checks all remotes concurrently.
//
//upstream:k8s.io/kube-aggregator/pkg/apiserver.APIServiceRegistrationController.sync
func (a *Aggregator) sync(ctx context.Context) error {
	services, err := a.config.List(ctx)
	if err != nil {
		return err
	}
	old, remotes := *a.remotes.Load(), map[schema.GroupVersion]*remote{}
	for i := range services {
		s := &services[i]
		if s.Spec.Service == nil && !helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available) {
			a.setCondition(ctx, s.Name, helper.NewLocalAvailableAPIServiceCondition())
		}
		if s.Spec.Service == nil || s.Spec.Group == "" {
			continue
		}
		gv := schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
		if known := old[gv]; known != nil && known.same(s) {
			remotes[gv] = known
			continue
		}
		remotes[gv] = newRemote(a.config, s)
	}
	a.replace(remotes)
	var checks sync.WaitGroup
	for _, r := range remotes {
		checks.Go(func() { a.check(ctx, r) })
	}
	checks.Wait()
	return nil
}

// replace sets the remotes, and releases the ones that are no longer needed.
func (a *Aggregator) replace(remotes map[schema.GroupVersion]*remote) {
	old := *a.remotes.Swap(&remotes)
	for gv, r := range old {
		if remotes[gv] == r {
			continue
		}
		if remotes[gv] == nil {
			a.config.Catalog.Set(source(gv))
		}
		r.transport.CloseIdleConnections()
	}
}

// source returns the key of a group version's resources in the catalog.
func source(gv schema.GroupVersion) string { return "APIService " + gv.String() }
