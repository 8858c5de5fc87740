package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/manager"
)

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// fakeState is an object of a cache.
type fakeState struct {
	obj      *corev1.ConfigMap
	size     int
	unpacked *int // counts the objects
}

func (s fakeState) Object() client.Object { *s.unpacked++; return s.obj }
func (s fakeState) UID() types.UID        { return s.obj.UID }
func (s fakeState) Size() int             { return s.size }

// fakeKind is an informer.
type fakeKind struct {
	observe.CachedKind
	states []observe.State
}

func (k fakeKind) Summary() observe.KindSummary { return observe.KindSummary{GVK: configMaps} }
func (k fakeKind) States(_ string, limit int) ([]observe.State, int) {
	return k.states[:min(limit, len(k.states))], len(k.states)
}

// fakeManager is a manager with a cache of ConfigMaps.
type fakeManager struct {
	manager.Manager
	kind     fakeKind
	unpacked int
}

func (m *fakeManager) GetCache() cache.Cache { return fakeCache{fakeManager: m} }

// fakeCache is the cache of a fakeManager.
type fakeCache struct {
	cache.Cache
	fakeManager *fakeManager
}

func (c fakeCache) ObservedKinds() []observe.CachedKind {
	return []observe.CachedKind{c.fakeManager.kind}
}

func (c fakeCache) ObservedKind(schema.GroupVersionKind, client.Object) observe.CachedKind {
	return c.fakeManager.kind
}

// add adds a ConfigMap with owners.
func (m *fakeManager) add(name string, owners ...string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	obj.APIVersion, obj.Kind = configMaps.ToAPIVersionAndKind()
	for _, owner := range owners {
		obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner)})
	}
	m.kind.states = append(m.kind.states, fakeState{obj, 500, &m.unpacked})
	return obj
}

// lines are the objects of trees, a line each.
func lines(trees ...Owned) (all []string) {
	for _, v := range trees {
		line := strings.Repeat(" ", v.Depth) + strings.TrimPrefix(v.Name, "default/")
		for word, is := range map[string]bool{" absent": v.Absent, " again": v.Again} {
			if is {
				line += word
			}
		}
		if v.Cycle {
			line += " cycle"
		}
		if v.Owners > 0 {
			line += fmt.Sprint(" of ", v.Owners)
		}
		if v.More > 0 {
			line += fmt.Sprint(" and ", v.More)
		}
		all = append(append(all, line), lines(v.Below...)...)
	}
	return all
}

// TestTrees draws graphs of owners that are no trees.
func TestTrees(t *testing.T) {
	for name, c := range map[string]struct {
		objects [][]string // each with its owners
		of      string     // the object of the page, or all
		want    []string
	}{
		"tree":           {[][]string{{"a"}, {"b", "a"}, {"c", "b"}}, "", []string{"a", " b", "  c"}},
		"lone":           {[][]string{{"a"}}, "", nil},
		"lone object":    {[][]string{{"a"}}, "a", nil},
		"absent owner":   {[][]string{{"b", "a"}}, "b", []string{"a absent", " b"}},
		"two owners":     {[][]string{{"a"}, {"b"}, {"c", "a", "b"}}, "", []string{"a", " c of 2", "b", " c of 2"}},
		"diamond":        {[][]string{{"a"}, {"b", "a"}, {"c", "a"}, {"d", "b", "c"}}, "", []string{"a", " b", "  d of 2", " c", "  d again of 2"}},
		"twice":          {[][]string{{"a"}, {"b", "a", "a"}}, "", []string{"a", " b"}},
		"itself":         {[][]string{{"a", "a"}}, "", []string{"a cycle", " a again cycle"}},
		"mutual":         {[][]string{{"a", "b"}, {"b", "a"}}, "", []string{"a cycle", " b", "  a again cycle"}},
		"mutual object":  {[][]string{{"a", "b"}, {"b", "a"}}, "a", []string{"b cycle", " a", "  b again cycle"}},
		"below a cycle":  {[][]string{{"a", "c"}, {"b", "c"}, {"c", "b"}}, "", []string{"c cycle", " a", " b", "  c again cycle"}},
		"cycle and root": {[][]string{{"a"}, {"b", "a", "c"}, {"c", "b"}}, "", []string{"a", " b of 2", "  c", "   b again cycle of 2"}},
	} {
		m := &fakeManager{}
		for _, o := range c.objects {
			m.add(o[0], o[1:]...)
		}
		console := &Console{manager: m}
		trees := console.owners("", 0).Trees
		if c.of != "" {
			trees = nil
			if tree, _ := console.treeOf(configMaps, types.UID(c.of), "default"); tree != nil {
				trees = []Owned{*tree}
			}
		}
		if got := lines(trees...); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestManyOwners: a page of ten thousand owners, dependents or objects that all own each other has its rows, and says how many
// more there are.
func TestManyOwners(t *testing.T) {
	const n = 10_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("x%05d", i)
	}
	for name, c := range map[string]struct {
		fill func(*fakeManager)
		of   string // the object that its page shows
		more func(Owners) int
	}{
		"dependents": {func(m *fakeManager) {
			m.add("a")
			for _, name := range names {
				m.add(name, "a")
			}
		}, names[n-1], func(v Owners) int { return v.Trees[0].More - (n - oneTree + 1) }},
		"owners": {func(m *fakeManager) {
			for _, name := range names {
				m.add(name)
			}
			m.add("a", names...)
		}, "a", func(v Owners) int { return v.More - (n - maxRows/2) }},
		"mutual": {func(m *fakeManager) {
			for _, name := range names[:100] {
				m.add(name, names[:100]...)
			}
		}, names[50], func(v Owners) int { return v.Trees[0].More - (100 - oneTree + 1) }},
		"chain": {func(m *fakeManager) {
			for i, name := range names {
				m.add(name, names[max(i-1, 0)])
			}
		}, names[n-1], func(v Owners) int { return v.More }},
	} {
		m := &fakeManager{}
		c.fill(m)
		console := &Console{manager: m}
		v := console.owners("", 0)
		if limit := len(m.kind.states) + maxRows; m.unpacked > limit {
			t.Errorf("%s: the page unpacks %d objects, more than %d", name, m.unpacked, limit)
		}
		rows := 0
		for i := range v.Trees {
			rows += v.Trees[i].rows()
		}
		if rows == 0 || rows > maxRows || c.more(v) != 0 {
			t.Errorf("%s: %d rows of %d trees, and %d more, %d off", name, rows, len(v.Trees), v.More, c.more(v))
		}
		tree, _ := console.treeOf(configMaps, types.UID(c.of), "default")
		if tree == nil || tree.rows() > treeRows || !strings.Contains(strings.Join(lines(*tree), "\n"), c.of) {
			t.Errorf("%s: the page of %s shows %v", name, c.of, tree)
		}
		if next := console.owners("", len(v.Trees)); v.More > 0 && (len(next.Trees) == 0 || next.Trees[0].Name == v.Trees[0].Name) {
			t.Errorf("%s: the next page is %+v", name, next)
		}
	}
}

// TestLargeObjects: a page unpacks objects up to a number of bytes, and says how many it has not.
func TestLargeObjects(t *testing.T) {
	m := &fakeManager{}
	m.add("a")
	for i := range 1000 {
		m.add(fmt.Sprint("x", i), "a")
		state := m.kind.states[i+1].(fakeState)
		state.size = 1 << 20
		m.kind.states[i+1] = state
	}
	v := (&Console{manager: m}).owners("", 0)
	read := maxTreeBytes>>20 - 1 // and the owner
	if v.Unread != 1000-read || len(v.Trees) != 1 || len(v.Trees[0].Below) != read {
		t.Errorf("%d are not looked at, and the trees are %q", v.Unread, lines(v.Trees...))
	}
	if limit := 2*maxTreeBytes>>20 + maxRows; m.unpacked > limit {
		t.Errorf("the page unpacks %d objects", m.unpacked)
	}
}

// TestMutualOwners serves the pages of a dozen ConfigMaps that own each other.
func TestMutualOwners(t *testing.T) {
	s := open(t, shopOptions{})
	var all []*corev1.ConfigMap
	for i := range 12 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("mutual-", i)}}
		if err := s.client.Create(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		all = append(all, cm)
	}
	for _, cm := range all {
		for _, owner := range all {
			if owner != cm {
				cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})
			}
		}
		if err := s.client.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	s.idle(t)
	for _, path := range []string{"owners", "key?controller=site&request=default/mutual-7", "object?kind=ConfigMap&name=default/mutual-7"} {
		if page := s.get(t, "/console/"+path); !strings.Contains(page, "owns its owner") || strings.Count(page, "see above") == 0 || len(page) > 1<<20 {
			t.Errorf("%s has %d bytes:\n%.5000s", path, len(page), page)
		}
	}
}

// TestLargeObject shows an object of 1 MB with many fields: its page has the rows of any other.
func TestLargeObject(t *testing.T) {
	s := open(t, shopOptions{})
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large", Finalizers: manyFinalizers(300)}, Data: map[string]string{"motto": "x"},
	}
	for i := range 5000 {
		cm.Data[fmt.Sprintf("key-%04d", i)] = strings.Repeat("x", 150)
	}
	if err := s.client.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.idle(t)
	var page ObjectPage
	if err := json.Unmarshal([]byte(s.get(t, "/console/api/object?kind=ConfigMap&name=default/large")), &page); err != nil {
		t.Fatal(err)
	}
	if o := page.Object; countRows(page) > maxRows || len(o.Fields)+o.MoreFields < 5000 || len(o.Finalizers)+o.MoreFinalizers != 300 {
		t.Errorf("%d rows, %d fields and %d more, %d finalizers and %d more", countRows(page), len(o.Fields), o.MoreFields, len(o.Finalizers), o.MoreFinalizers)
	}
}

func manyFinalizers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("example.com/f", i))
	}
	return all
}

// TestDeletingOwner shows an object that waits for its finalizer.
func TestDeletingOwner(t *testing.T) {
	m := &fakeManager{}
	obj := m.add("a")
	obj.DeletionTimestamp, obj.Finalizers = &metav1.Time{Time: time.Now()}, manyFinalizers(30)
	v := (&Console{manager: m}).owners("", 0)
	if len(v.Trees) != 1 || len(v.Trees[0].Finalizers) != maxFinalizers || v.Trees[0].MoreFinalizers != 30-maxFinalizers || v.Trees[0].Health.State != "deleting" {
		t.Errorf("the trees are %+v", v.Trees)
	}
}

// TestWaitingFinalizer: the page of the owners names the finalizer that an object waits for, and who has set it.
func TestWaitingFinalizer(t *testing.T) {
	s := open(t, shopOptions{})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", Finalizers: []string{"example.com/bills"}}}
	if err := s.client.Create(t.Context(), cm, client.FieldOwner("biller")); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.idle(t)
	for _, path := range []string{"owners", "key?controller=site&request=default/shop"} {
		if page := s.get(t, "/console/"+path); !strings.Contains(page, "finalizer <b>example.com/bills</b>, set by biller") || !strings.Contains(page, "waits for example.com/bills") {
			t.Errorf("%s: %s", path, page)
		}
	}
	if page := s.get(t, "/console/owners?offset=7"); !strings.Contains(page, "There are no more trees") {
		t.Errorf("behind the last tree: %s", page)
	}
}
