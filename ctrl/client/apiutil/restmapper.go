package apiutil

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// NewDynamicRESTMapper returns a RESTMapper that learns the server's resources
// as it is asked about them, one group and version at a time. It makes no
// request before the first question.
//
// Kinds that it does not know it looks up again, so that what is installed later
// is found; for each group that happens about once a second, with some more to
// begin with. What it knows it keeps until its Reset method is called (it is a
// meta.ResettableRESTMapper). It is safe for concurrent use.
func NewDynamicRESTMapper(cfg *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	if httpClient == nil {
		return nil, errors.New("httpClient must not be nil; rest.HTTPClientFor makes one of a rest.Config")
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	m := &mapper{client: client, again: map[string]*rate.Limiter{}}
	m.Reset()
	return m, nil
}

// mapper answers from a snapshot of what is known, and replaces it by a larger
// one when that is not enough.
type mapper struct {
	client *discovery.DiscoveryClient
	known  atomic.Pointer[snapshot]

	mu    sync.Mutex               // held while asking the server
	again map[string]*rate.Limiter // by group: how soon it may be asked the same again
}

var _ meta.ResettableRESTMapper = (*mapper)(nil)

// wish is what must be known to answer a question: a version of a group, all
// versions of a group, or everything.
type wish struct {
	group, version string
	everything     bool
}

// Reset forgets everything.
func (m *mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.Store(newSnapshot(nil, false))
}

func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return byResource(m, resource, func(s *snapshot) (schema.GroupVersionKind, error) { return s.KindFor(resource) })
}

func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return byResource(m, resource, func(s *snapshot) ([]schema.GroupVersionKind, error) { return s.KindsFor(resource) })
}

func (m *mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return byResource(m, input, func(s *snapshot) (schema.GroupVersionResource, error) { return s.ResourceFor(input) })
}

func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return byResource(m, input, func(s *snapshot) ([]schema.GroupVersionResource, error) { return s.ResourcesFor(input) })
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	w, versions := wishFor(gk, versions)
	return answer(m, w, func(s *snapshot) (*meta.RESTMapping, error) {
		if w.version == "" {
			return s.RESTMapper.RESTMapping(gk, versions...)
		}
		return s.mapping(gk.WithVersion(w.version))
	})
}

func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	w, versions := wishFor(gk, versions)
	return answer(m, w, func(s *snapshot) ([]*meta.RESTMapping, error) { return s.RESTMappings(gk, versions...) })
}

// ResourceSingularizer answers from what is known: a bare name does not say
// where to look.
func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.known.Load().ResourceSingularizer(resource)
}

// wishFor returns what to know for a kind in these versions, and the versions
// that are not empty.
func wishFor(gk schema.GroupKind, versions []string) (wish, []string) {
	if slices.Contains(versions, "") {
		versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return v == "" })
	}
	w := wish{group: gk.Group}
	if len(versions) == 1 {
		w.version = versions[0]
	}
	return w, versions
}

// byResource answers a question about a resource. One without a group is of the
// core group, or else of whichever group has it.
func byResource[T any](m *mapper, r schema.GroupVersionResource, find func(*snapshot) (T, error)) (T, error) {
	found, err := answer(m, wish{group: r.Group, version: r.Version}, find)
	if r.Group == "" && meta.IsNoMatchError(err) {
		return answer(m, wish{everything: true}, find)
	}
	return found, err
}

// answer finds something in what is known, and if it is not there, in what the
// server says now.
func answer[T any](m *mapper, w wish, find func(*snapshot) (T, error)) (T, error) {
	s := m.known.Load()
	if s.grants(w) {
		found, err := find(s)
		if !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	s, failure := m.learn(w, s)
	if s == nil {
		var none T
		return none, failure
	}
	found, err := find(s)
	if err != nil && failure != nil {
		err = failure // what is not found may be in the part that failed
	}
	return found, err
}

// learn returns a snapshot that is newer than seen, if the server may be asked
// again so soon.
func (m *mapper) learn(w wish, seen *snapshot) (*snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.known.Load()
	if now.grants(w) && (now != seen || !m.mayAskAgain(w.group)) {
		return now, nil
	}
	next, err := m.ask(w, now)
	if next != nil {
		m.known.Store(next)
	}
	return next, err
}

func (m *mapper) mayAskAgain(group string) bool {
	l, ok := m.again[group]
	if !ok {
		l = rate.NewLimiter(1, 10)
		m.again[group] = l
	}
	return l.Allow()
}

// ask returns what is known when the server has granted the wish. Whatever part
// of it failed is in the error; the rest is in the snapshot.
func (m *mapper) ask(w wish, known *snapshot) (*snapshot, error) {
	switch {
	case w.everything:
		return m.askEverything()
	case w.version != "":
		g := known.group(w.group).clone(w.group)
		// A version that the group did not have before: its order is open again.
		g.complete = g.complete && slices.Contains(g.versions, w.version)
		failed := ErrResourceDiscoveryFailed{}
		m.askVersion(g, w.version, failed)
		return known.with(g), failed.orNil()
	default:
		g, err := m.askGroup(w.group)
		if err != nil {
			return nil, &ErrResourceDiscoveryFailed{schema.GroupVersion{Group: w.group}: err}
		}
		failed := ErrResourceDiscoveryFailed{}
		for _, v := range g.versions {
			m.askVersion(g, v, failed)
		}
		return known.with(g), failed.orNil()
	}
}

// askGroup returns the group with its versions but not their resources.
func (m *mapper) askGroup(name string) (*group, error) {
	if name == "" {
		var doc metav1.APIVersions
		err := m.client.RESTClient().Get().AbsPath("/api").Do(context.Background()).Into(&doc)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		return &group{complete: true, versions: doc.Versions, resources: map[string][]metav1.APIResource{}}, nil
	}
	var doc metav1.APIGroup
	err := m.client.RESTClient().Get().AbsPath("/apis", name).Do(context.Background()).Into(&doc)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	doc.Name = name
	return groupOf(&doc), nil
}

// askVersion fills in the resources of a version of g. A version that does not
// exist has none.
func (m *mapper) askVersion(g *group, version string, failed ErrResourceDiscoveryFailed) {
	gv := schema.GroupVersion{Group: g.name, Version: version}
	list, err := m.client.ServerResourcesForGroupVersion(gv.String())
	switch {
	case apierrors.IsNotFound(err):
		g.resources[version] = nil
	case err != nil:
		failed[gv] = err
	default:
		g.resources[version] = list.APIResources
	}
}

func (m *mapper) askEverything() (*snapshot, error) {
	list, resources, failed, err := m.client.GroupsAndMaybeResources()
	if err != nil {
		return nil, err
	}
	problems := ErrResourceDiscoveryFailed{}
	groups := make([]*group, 0, len(list.Groups))
	for i := range list.Groups {
		g := groupOf(&list.Groups[i])
		for _, v := range g.versions {
			gv := schema.GroupVersion{Group: g.name, Version: v}
			if got, ok := resources[gv]; ok {
				g.resources[v] = got.APIResources
			} else if err, ok := failed[gv]; ok {
				problems[gv] = err
			} else {
				m.askVersion(g, v, problems)
			}
		}
		groups = append(groups, g)
	}
	return newSnapshot(groups, true), problems.orNil()
}
