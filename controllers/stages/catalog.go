package stages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"

	"flyball.dev/ctrl/client"
)

// The reasons of the condition [Valid].
const (
	reasonValid   = "Valid"
	reasonInvalid = "InvalidStage" // the stage does not parse
	reasonKind    = "KindNotFound"
	reasonFailed  = "StageFailed" // for an object
	reasonCycle   = "StageCycle"
)

// failure is why a stage does not work.
type failure struct {
	uid             types.UID
	generation      int64
	reason, message string
	object          string // for which the stage failed, if any
}

// edition is an edition of the stages. It does not change.
type edition struct {
	number  int
	kinds   map[schema.GroupVersionKind][]*stage
	since   map[schema.GroupVersionKind]int // the number of the edition in which the stages of the kind last changed
	invalid map[string]*failure             // by the name of the stage
	sources map[string]compiled             // by the name of the stage
}

// compiled is the result of the compilation of a generation of a stage.
type compiled struct {
	uid        types.UID
	generation int64
	stage      *stage
	failure    *failure
}

// catalog holds the present edition of the stages.
type catalog struct {
	library *library
	reader  client.Reader
	mapper  meta.RESTMapperWithContext

	mu      sync.Mutex
	current *edition
	failed  map[string]*failure // while they were played, by the name of the stage
}

// changedSince returns the kinds with stages that have changed since another edition.
func (e *edition) changedSince(number int) (kinds []schema.GroupVersionKind) {
	for kind, since := range e.since {
		if since > number {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// edition returns the present edition. The first call waits for the stages.
func (c *catalog) edition(ctx context.Context) (*edition, error) {
	c.mu.Lock()
	e := c.current
	c.mu.Unlock()
	if e != nil {
		return e, nil
	}
	return c.update(ctx)
}

// update reads the stages, and returns a new edition.
func (c *catalog) update(ctx context.Context) (*edition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	if err := c.reader.List(ctx, list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	before := c.current
	if before == nil {
		before = &edition{since: map[schema.GroupVersionKind]int{}}
	}
	e := &edition{number: before.number + 1, kinds: map[schema.GroupVersionKind][]*stage{}, since: maps.Clone(before.since), invalid: map[string]*failure{}, sources: map[string]compiled{}}
	for i := range list.Items {
		u := &list.Items[i]
		if u.GetDeletionTimestamp() != nil {
			continue
		}
		got, ok := before.sources[u.GetName()]
		if !ok || got.uid != u.GetUID() || got.generation != u.GetGeneration() || got.failure != nil && got.failure.reason == reasonKind {
			got = c.compile(ctx, u)
		}
		e.sources[u.GetName()] = got
		if got.failure != nil {
			e.invalid[u.GetName()] = got.failure
			continue
		}
		e.kinds[got.stage.kind] = append(e.kinds[got.stage.kind], got.stage)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // kinds may not have been found for this reason
	}
	for name, f := range c.failed {
		if s, ok := e.sources[name]; !ok || s.uid != f.uid || s.generation != f.generation {
			delete(c.failed, name)
		}
	}
	for kind, stages := range before.kinds {
		if !slices.Equal(stages, e.kinds[kind]) {
			e.since[kind] = e.number
		}
	}
	for kind := range e.kinds {
		if before.kinds[kind] == nil {
			e.since[kind] = e.number
		}
	}
	c.current = e
	return e, nil
}

// compile compiles a stage.
func (c *catalog) compile(ctx context.Context, u *unstructured.Unstructured) compiled {
	result := compiled{uid: u.GetUID(), generation: u.GetGeneration()}
	fail := func(reason string, err error) compiled {
		result.failure = &failure{uid: result.uid, generation: result.generation, reason: reason, message: err.Error()}
		return result
	}
	s := &v1alpha1.Stage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s); err != nil {
		return fail(reasonInvalid, err)
	}
	gv, err := schema.ParseGroupVersion(s.Spec.ResourceRef.APIGroup)
	if err != nil {
		return fail(reasonInvalid, fmt.Errorf("spec.resourceRef.apiGroup: %w", err))
	}
	kind := gv.WithKind(s.Spec.ResourceRef.Kind)
	if _, err := c.mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version); err != nil {
		return fail(reasonKind, fmt.Errorf("spec.resourceRef: %w", err))
	}
	if result.stage, err = c.library.compile(s, kind); err != nil {
		return fail(reasonInvalid, err)
	}
	return result
}

// fail notes that a stage has failed for an object, and reports whether that is news. The first failure stays until the
// stage changes or works for the object.
func (c *catalog) fail(name, reason, object, message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	source, ok := c.current.sources[name]
	if !ok || c.failed[name] != nil {
		return false
	}
	c.failed[name] = &failure{uid: source.uid, generation: source.generation, reason: reason, message: message, object: object}
	return true
}

// works notes that a stage has worked for an object, and reports whether it had failed for the object before.
func (c *catalog) works(name, object string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.failed[name]
	if f == nil || f.object != object || f.reason != reasonFailed {
		return false
	}
	delete(c.failed, name)
	return true
}

// failure returns why a stage does not work, or nil.
func (c *catalog) failure(name string) *failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	if f := c.current.invalid[name]; f != nil {
		return f
	}
	return c.failed[name]
}
