package development

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/internal/objectdiff"
	"flyball.dev/internal/testlevel"
)

// odd is an object with any status.
type odd[status any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              any    `json:"spec,omitempty"`
	Status            status `json:"status,omitempty"`
}

func (o *odd[status]) DeepCopyObject() runtime.Object {
	c := *o
	return &c
}

type observed struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

type shared struct {
	*observed `json:",inline"`
	Inner     *shared `json:"inner,omitempty"`
}

// Observed is embedded by its exported name.
type Observed struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Embedded embeds a pointer to a struct with the field.
type Embedded struct {
	*Observed `json:",inline"`
	Phase     string `json:"phase,omitempty"`
}

// Deep embeds a pointer to such a struct.
type Deep struct {
	*Embedded `json:",inline"`
}

// refusing cannot be encoded, or panics.
type refusing struct{ Panics bool }

func (r refusing) MarshalJSON() ([]byte, error) {
	if r.Panics {
		panic("refused")
	}
	return nil, errors.New("refused")
}

type plain struct {
	ObservedGeneration string `json:"observedGeneration,omitempty"`
	Raw                json.RawMessage
	Any                any
	Map                map[string]*int
	Numbers            map[int]string
	Array              [3]*string
	Time               *metav1.Time
	Port               intstr.IntOrString
	Duration           metav1.Duration
	//lint:ignore U1000 reflection finds it
	hidden map[string]chan int
}

// randomTypes are the types of the objects: odd ones, several times, and all of client-go's scheme.
func randomTypes() []reflect.Type {
	all := slices.Repeat([]reflect.Type{
		reflect.TypeFor[odd[any]](), reflect.TypeFor[odd[*observed]](), reflect.TypeFor[odd[observed]](),
		reflect.TypeFor[odd[shared]](), reflect.TypeFor[odd[Embedded]](), reflect.TypeFor[odd[*Embedded]](),
		reflect.TypeFor[odd[Deep]](), reflect.TypeFor[odd[*Deep]](), reflect.TypeFor[odd[**Deep]](),
		reflect.TypeFor[odd[map[string]Deep]](), reflect.TypeFor[odd[[]Embedded]](), reflect.TypeFor[odd[plain]](),
		reflect.TypeFor[odd[refusing]](), reflect.TypeFor[odd[*refusing]](), reflect.TypeFor[odd[chan int]](),
		reflect.TypeFor[odd[func()]](), reflect.TypeFor[odd[string]](),
		reflect.TypeFor[unstructured.Unstructured](), reflect.TypeFor[metav1.PartialObjectMetadata](),
	}, 5)
	for _, typ := range scheme.Scheme.AllKnownTypes() {
		if reflect.PointerTo(typ).Implements(reflect.TypeFor[client.Object]()) {
			all = append(all, typ)
		}
	}
	return all
}

// generator makes random values.
type generator struct{ *rand.Rand }

// lockedSource is a source of random numbers for the test and the goroutine of the Monitor.
type lockedSource struct {
	mu sync.Mutex
	rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Source.Uint64()
}

// fill fills a value, down to a depth.
func (g generator) fill(v reflect.Value, depth int) {
	if !v.CanSet() || depth < 0 || g.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(g.IntN(5)) - 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(g.IntN(5)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(g.Float64())
	case reflect.String:
		v.SetString([]string{"", "a", "b", "a/b.c", "\xff", strings.Repeat("x", 300)}[g.IntN(6)])
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		g.fill(p.Elem(), depth-1)
		v.Set(p)
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), g.IntN(3), 3)
		for n := range s.Len() {
			g.fill(s.Index(n), depth-1)
		}
		v.Set(s)
	case reflect.Array:
		for n := range v.Len() {
			g.fill(v.Index(n), depth-1)
		}
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range g.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			g.fill(key, depth-1)
			g.fill(value, depth-1)
			m.SetMapIndex(key, value)
		}
		v.Set(m)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(g.Int64N(1e9), g.Int64N(1e9))))
			return
		}
		for n := range v.NumField() {
			g.fill(v.Field(n), depth-1)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			values := []any{nil, "a", int64(1), 1.5, true, []any{"a", nil}, map[string]any{"type": "a", "x": nil}, &plain{}, refusing{}}
			if value := values[g.IntN(len(values))]; value != nil {
				v.Set(reflect.ValueOf(value))
			}
		}
	}
}

// object returns a random object of a type, in a version of it.
func (g generator) object(typ reflect.Type, version int) client.Object {
	obj := reflect.New(typ).Interface().(client.Object)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		g.fill(reflect.ValueOf(&u.Object).Elem(), 4)
		if u.Object == nil || g.IntN(2) == 0 {
			u.Object = map[string]any{"status": []any{map[string]any{"observedGeneration": int64(1)}, "text", nil}[g.IntN(3)]}
		}
		u.Object["metadata"] = map[string]any{}
	} else {
		g.fill(reflect.ValueOf(obj).Elem(), 6)
	}
	obj.SetNamespace("default")
	obj.SetName([]string{"a", "b"}[g.IntN(2)])
	obj.SetUID(types.UID(fmt.Sprint(g.IntN(2))))
	obj.SetResourceVersion(fmt.Sprint(version))
	obj.SetGeneration(int64(g.IntN(3)))
	if g.IntN(2) == 0 {
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	}
	var entries []metav1.ManagedFieldsEntry
	for range g.IntN(3) {
		fields := []string{`{"f:data":{}}`, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"0\"}":{}}}}`, `{"`, `[]`, ``}[g.IntN(5)]
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: []string{"", "a", "me"}[g.IntN(3)], FieldsV1: metav1.NewFieldsV1(fields)})
	}
	obj.SetManagedFields(entries)
	return obj
}

// randomClient is a client. Its requests do nothing, and fail now and then.
type randomClient struct {
	client.Client
	generator
}

func (c randomClient) result() error {
	return []error{
		nil, nil, nil, errors.New("no route to host"), context.Canceled,
		apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "a", errors.New("modified")),
		apierrors.NewNotFound(schema.GroupResource{}, ""), &apierrors.StatusError{},
	}[c.IntN(8)]
}

func (c randomClient) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Odd"}, nil
}

func (c randomClient) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return c.result()
}

func (c randomClient) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return c.result()
}

func (c randomClient) Create(context.Context, client.Object, ...client.CreateOption) error {
	return c.result()
}

func (c randomClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return c.result()
}

func (c randomClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return c.result()
}

func (c randomClient) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return c.result()
}

func (c randomClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return c.result()
}

func (c randomClient) SubResource(string) client.SubResourceClient { return randomSubResource{c: c} }

type randomSubResource struct {
	client.SubResourceClient
	c randomClient
}

func (s randomSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return s.c.result()
}

// randomRun is a reconcile of any request.
type randomRun struct{ name string }

func (r randomRun) ControllerName() string { return "odd" }
func (r randomRun) RequestName() types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: r.name}
}
func (r randomRun) LeaderOnly() bool { return true }

// No check panics, whatever the types and the objects are.
func TestRandomObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := generator{rand.New(&lockedSource{Source: rand.NewPCG(1, 2)})}
		m := New(Options{Logger: logr.Discard(), OnWarning: func(config.Warning) {}, FieldManager: "me"})
		var typ reflect.Type
		m.contained.onPanic = func(p any) { t.Errorf("%s: %v\n%s", typ, p, debug.Stack()) }
		inner := randomClient{generator: g}
		m.Attach(inner, nil)
		c := m.Client(inner)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		for _, typ = range randomTypes() {
			h := &handler{monitor: m, gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: typ.Name()}}
			for n := range testlevel.Rounds(1, 10) {
				before, after := g.object(typ, 2*n+1), g.object(typ, 2*n+2)
				run := randomRun{after.GetName()}
				reconcile := context.WithValue(ctx, RunKey{}, Run(run))
				m.Begin(run)
				began := time.Now()
				h.OnAdd(before, n == 0)
				h.OnUpdate(before, after)
				h.OnUpdate(after, before)
				_ = c.Get(reconcile, client.ObjectKeyFromObject(after), after)
				_ = c.List(reconcile, &corev1.ConfigMapList{Items: make([]corev1.ConfigMap, 2)}, client.MatchingLabels{"a": "b"})
				_ = c.Create(reconcile, after)
				_ = c.Update(reconcile, after)
				_ = c.Patch(reconcile, after, client.MergeFrom(before))
				_ = c.Status().Update(reconcile, after)
				_ = c.Delete(reconcile, after)
				if u, ok := after.(*unstructured.Unstructured); ok {
					_ = c.Apply(reconcile, client.ApplyConfigurationFromUnstructured(u))
				}
				m.Reconciled(run, began, g.IntN(2) == 0)
				for _, last := range []any{after, toolscache.DeletedFinalStateUnknown{Obj: before}, toolscache.DeletedFinalStateUnknown{}, nil, "text"} {
					h.OnDelete(last)
				}
				objectdiff.Fields(before, after)
				objectdiff.Changes(before, after)
				time.Sleep(time.Duration(g.IntN(3)) * time.Second)
				synctest.Wait()
			}
		}
		time.Sleep(time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(m.writes.inFlight); n != 0 {
			t.Errorf("%d writes are in flight", n)
		}
	})
}

// broken is an object that panics in every method.
type broken struct{ corev1.ConfigMap }

func (*broken) GetDeletionTimestamp() *metav1.Time          { panic("no deletion") }
func (*broken) GetOwnerReferences() []metav1.OwnerReference { panic("no owners") }

// TestPanicOfTheProgram: a panic of OnWarning is the program's own, and is not contained.
func TestPanicOfTheProgram(t *testing.T) {
	logger := funcr.New(func(_, args string) { t.Errorf("logged %s", args) }, funcr.Options{})
	r := newReports(logger, func(config.Warning) { panic("mine") })
	c := &containment{logger: logger}
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("the panic is %v", p)
		}
	}()
	c.do(func() { r.add(config.Warning{Check: "check"}) })
}

// A panic ends neither the process nor the write, and is logged once for each place.
func TestPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		m := New(Options{Logger: logger})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		obj := &broken{}
		obj.Name, obj.ResourceVersion = "a", "1"
		h := &handler{monitor: m}
		a := m.begin(ctx, schema.GroupVersionKind{Kind: "Broken"}, obj, "", "")
		refused := errors.New("refused")
		for range 3 {
			h.OnAdd(obj, false)
			m.later(func() { panic("in a check") })
			if err := a.end(obj, nil); err != nil {
				t.Error(err)
			}
			a = m.begin(ctx, schema.GroupVersionKind{Kind: "Broken"}, obj, "", "")
		}
		if err := a.end(obj, refused); err != refused {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(logged) != 3 {
			t.Errorf("logged %d times: %.300q", len(logged), logged)
		}
		for n, part := range []string{"no deletion", "no owners", "in a check"} {
			if len(logged) > n && !strings.Contains(logged[n], part) {
				t.Errorf("logged %.100q, want %q", logged[n], part)
			}
		}
	})
}
