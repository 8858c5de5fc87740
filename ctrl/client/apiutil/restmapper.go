package apiutil

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"flyball.dev/internal/inprocess"
)

// NewDynamicRESTMapper returns a RESTMapper that discovers the server's resources on demand. It
// makes no request before it is first used.
//
// The first use discovers all resources with two requests if the server has aggregated discovery,
// as Kubernetes has by default since 1.27. Of other servers it discovers the groups, and then the
// versions that are asked for, one at a time.
//
// A kind that is not found is looked up on the server again, so that kinds which are installed
// later are found; for each group this is limited to once a second, with bursts of ten. Results are
// cached until the Reset method is called.
//
// The mapper is a meta.ResettableRESTMapper and a meta.ResettableRESTMapperWithContext. The methods
// with a context stop discovery when the context ends. The mapper is safe for concurrent use.
func NewDynamicRESTMapper(cfg *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	if httpClient == nil {
		return nil, errors.New("httpClient must not be nil, consider using rest.HTTPClientFor(c) to create a client")
	}
	if cfg == nil {
		return nil, errors.New("cfg must not be nil")
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	m := &mapper{config: cfg, client: client, discovering: make(chan struct{}, 1), retries: map[string]*rate.Limiter{}}
	m.Reset()
	return m, nil
}

// retryRate and retryBurst limit how often a group is discovered again, per second.
const (
	retryRate  = 1
	retryBurst = 10
)

// mapper answers queries from a snapshot of the discovered resources. A query that the snapshot
// does not cover extends it.
type mapper struct {
	config  *rest.Config
	client  *discovery.DiscoveryClient
	current atomic.Pointer[snapshot]

	// discovering has a value during discovery. It is a channel, since who waits for discovery may be
	// cancelled; and in a testing/synctest bubble time stands still while a goroutine waits for a mutex.
	discovering chan struct{}
	// retries has a limit for each group that was discovered again lately. Its user has filled discovering.
	retries map[string]*rate.Limiter
}

var (
	_ meta.ResettableRESTMapper            = (*mapper)(nil)
	_ meta.ResettableRESTMapperWithContext = (*mapper)(nil)
)

// query names the resources that a call needs: a version of a group, all versions of a group, or all
// groups.
type query struct {
	group, version string
	all            bool
}

// Reset drops all discovered resources. A discovery that is under way adds none.
func (m *mapper) Reset() { m.current.Store(newSnapshot(nil)) }

func (m *mapper) ResetWithContext(context.Context) { m.Reset() }

func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.KindForWithContext(context.Background(), resource)
}

func (m *mapper) KindForWithContext(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return byResource(ctx, m, resource, func(s *snapshot) (schema.GroupVersionKind, error) { return s.KindFor(resource) })
}

func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.KindsForWithContext(context.Background(), resource)
}

func (m *mapper) KindsForWithContext(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return byResource(ctx, m, resource, func(s *snapshot) ([]schema.GroupVersionKind, error) { return s.KindsFor(resource) })
}

func (m *mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.ResourceForWithContext(context.Background(), input)
}

func (m *mapper) ResourceForWithContext(ctx context.Context, input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return byResource(ctx, m, input, func(s *snapshot) (schema.GroupVersionResource, error) { return s.ResourceFor(input) })
}

func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.ResourcesForWithContext(context.Background(), input)
}

func (m *mapper) ResourcesForWithContext(ctx context.Context, input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return byResource(ctx, m, input, func(s *snapshot) ([]schema.GroupVersionResource, error) { return s.ResourcesFor(input) })
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.RESTMappingWithContext(context.Background(), gk, versions...)
}

func (m *mapper) RESTMappingWithContext(ctx context.Context, gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	q, versions := queryFor(gk, versions)
	return lookUp(ctx, m, q, func(s *snapshot) (*meta.RESTMapping, error) {
		if q.version == "" {
			return s.RESTMapper.RESTMapping(gk, versions...)
		}
		return s.mapping(gk.WithVersion(q.version))
	})
}

func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.RESTMappingsWithContext(context.Background(), gk, versions...)
}

func (m *mapper) RESTMappingsWithContext(ctx context.Context, gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	q, versions := queryFor(gk, versions)
	return lookUp(ctx, m, q, func(s *snapshot) ([]*meta.RESTMapping, error) { return s.RESTMappings(gk, versions...) })
}

// ResourceSingularizer uses only resources that are discovered already, as a name without a group does not say
// what to discover.
func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.current.Load().ResourceSingularizer(resource)
}

func (m *mapper) ResourceSingularizerWithContext(_ context.Context, resource string) (string, error) {
	return m.ResourceSingularizer(resource)
}

// queryFor returns the query for a kind in these versions, and the versions that are not empty.
func queryFor(gk schema.GroupKind, versions []string) (query, []string) {
	if slices.Contains(versions, "") {
		versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return v == "" })
	}
	q := query{group: gk.Group}
	if len(versions) == 1 {
		q.version = versions[0]
	}
	return q, versions
}

// byResource looks up a resource. One without a group is in the core group, or else in any group
// that has it.
func byResource[T any](ctx context.Context, m *mapper, r schema.GroupVersionResource, find func(*snapshot) (T, error)) (T, error) {
	found, err := lookUp(ctx, m, query{group: r.Group, version: r.Version}, find)
	if r.Group == "" && meta.IsNoMatchError(err) {
		return lookUp(ctx, m, query{all: true}, find)
	}
	return found, err
}

// lookUp calls find with the current snapshot and, if that does not cover the query or find returns
// no match, with a refreshed one.
func lookUp[T any](ctx context.Context, m *mapper, q query, find func(*snapshot) (T, error)) (T, error) {
	s := m.current.Load()
	if s.covers(q) {
		found, err := find(s)
		if !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	s, err := m.refresh(ctx, q, s)
	if err != nil {
		var none T
		return none, err
	}
	found, err := find(s)
	if meta.IsNoMatchError(err) {
		if failure := s.failure(q); failure != nil {
			err = failure // it may be in the part that was not discovered
		}
	}
	return found, err
}

// refresh returns a snapshot that covers the query and is newer than seen, unless the rate of
// retries is exceeded.
func (m *mapper) refresh(ctx context.Context, q query, seen *snapshot) (*snapshot, error) {
	select {
	case m.discovering <- struct{}{}:
		defer func() { <-m.discovering }()
	case <-ctx.Done():
		return nil, cancelled(ctx)
	}
	now := m.current.Load()
	if now.covers(q) && (now != seen || !m.allowRetry(q.group)) {
		return now, nil
	}
	next, err := m.fetch(ctx, q, now)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, cancelled(ctx) // next lacks what was cancelled
	}
	m.current.CompareAndSwap(now, next) // unless Reset was called meanwhile, and next may be outdated
	return next, nil
}

// cancelled returns the error of a query with a context that has ended.
func cancelled(ctx context.Context) error {
	return fmt.Errorf("failed to discover the server's resources: %w", ctx.Err())
}

// allowRetry reports whether a group may be discovered again now.
func (m *mapper) allowRetry(group string) bool {
	l, ok := m.retries[group]
	if !ok {
		// A limit that nothing counts against is as good as a new one.
		maps.DeleteFunc(m.retries, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= retryBurst })
		l = rate.NewLimiter(retryRate, retryBurst)
		m.retries[group] = l
	}
	return l.Allow()
}

// fetch discovers the resources that the query needs, and returns the extended snapshot.
func (m *mapper) fetch(ctx context.Context, q query, from *snapshot) (*snapshot, error) {
	switch {
	case !from.discovered, q.all, q.version == "" && from.aggregated:
		next, err := m.discover(ctx, from)
		if err != nil {
			return nil, err
		}
		return m.extend(ctx, next, q), nil
	case q.version != "":
		return from.with(m.fetchVersion(ctx, from.group(q.group).clone(q.group), q.version)), nil
	default:
		g, err := m.fetchGroup(ctx, q.group)
		if err != nil {
			return nil, &ErrResourceDiscoveryFailed{schema.GroupVersion{Group: q.group}: err}
		}
		return from.with(m.fetchVersions(ctx, g)), nil
	}
}

// discovered is the key of a snapshot in [inprocess.Discovered].
type discovered struct{}

// discover is discoverAgain, unless another mapper has made the same of the same documents.
func (m *mapper) discover(ctx context.Context, from *snapshot) (*snapshot, error) {
	same := inprocess.Discovered(m.config)
	if same == nil || from.discovered {
		return m.discoverAgain(ctx, from)
	}
	if s, ok := same.Load(discovered{}); ok {
		return s.(*snapshot), nil
	}
	s, err := m.discoverAgain(ctx, from)
	// The documents of this server may have changed meanwhile.
	if err == nil && s.aggregated && s.failure(query{all: true}) == nil && inprocess.Discovered(m.config) == same {
		same.Store(discovered{}, s)
	}
	return s, err
}

// discoverAgain returns the groups of the server, with their resources if it has aggregated discovery.
// If a server is unavailable, its resources come from the snapshot from, if it has them.
func (m *mapper) discoverAgain(ctx context.Context, from *snapshot) (*snapshot, error) {
	list, resources, failed, err := m.client.GroupsAndMaybeResourcesWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to get server groups: %w", err)
	}
	if len(list.Groups) == 0 {
		return nil, errors.New("received an empty API groups list")
	}
	groups := make([]*group, 0, len(list.Groups))
	for i := range list.Groups {
		g := newGroup(&list.Groups[i])
		g.complete = resources != nil
		for _, v := range g.versions {
			if got, ok := resources[schema.GroupVersion{Group: g.name, Version: v}]; ok {
				g.resources[v] = got.APIResources
			}
		}
		for gv, err := range failed {
			if gv.Group == g.name {
				g.addStale(gv.Version, err, from.group(g.name))
			}
		}
		groups = append(groups, g)
	}
	s := newSnapshot(groups)
	s.discovered, s.aggregated, s.all = true, resources != nil, resources != nil
	return s, nil
}

// extend adds to a snapshot that was just discovered the resources that the query needs. If discovery
// was aggregated, other resources do not exist.
func (m *mapper) extend(ctx context.Context, s *snapshot, q query) *snapshot {
	switch {
	case s.covers(q) || s.aggregated && s.failure(q) != nil:
		return s
	case q.all:
		groups := make([]*group, len(s.groups))
		for i, g := range s.groups {
			groups[i] = m.fetchVersions(ctx, g.clone(g.name))
		}
		next := newSnapshot(groups)
		next.discovered, next.all = true, true
		return next
	}
	g := s.group(q.group).clone(q.group)
	switch {
	case q.version == "":
		g = m.fetchVersions(ctx, g)
	case s.aggregated:
		g.setResources(q.version, nil)
	default:
		g = m.fetchVersion(ctx, g, q.version)
	}
	return s.with(g)
}

// fetchGroup returns a group with its versions but without their resources.
func (m *mapper) fetchGroup(ctx context.Context, name string) (*group, error) {
	if name == "" {
		var doc metav1.APIVersions
		err := m.client.RESTClient().Get().AbsPath("/api").Do(ctx).Into(&doc)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		return &group{versions: doc.Versions, ordered: true, resources: map[string][]metav1.APIResource{}}, nil
	}
	var doc metav1.APIGroup
	err := m.client.RESTClient().Get().AbsPath("/apis", name).Do(ctx).Into(&doc)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	doc.Name = name
	return newGroup(&doc), nil
}

// fetchVersions adds the resources of all versions of g, and returns it.
func (m *mapper) fetchVersions(ctx context.Context, g *group) *group {
	for _, v := range g.versions {
		m.fetchVersion(ctx, g, v)
	}
	g.complete = true
	return g
}

// fetchVersion adds the resources of a version to g, and returns it. A version that does not exist
// has none.
func (m *mapper) fetchVersion(ctx context.Context, g *group, version string) *group {
	list, err := m.client.ServerResourcesForGroupVersionWithContext(ctx, schema.GroupVersion{Group: g.name, Version: version}.String())
	switch {
	case apierrors.IsNotFound(err):
		g.setResources(version, nil)
	case err != nil:
		g.setFailure(version, err)
	default:
		g.setResources(version, list.APIResources)
		if !slices.Contains(g.versions, version) {
			g.ordered, g.complete = false, false // its place among the others is not known
		}
	}
	return g
}
