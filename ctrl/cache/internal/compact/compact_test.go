package compact

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/dump"
	"sigs.k8s.io/randfill"

	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// filler fills objects at random, as far as a server could send them.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.5).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(forms[c.Intn(len(forms))])
		},
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.Unix(c.Int63n(1e10)-1e9, c.Int63n(2)*c.Int63n(1e9))
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.UnixMicro(c.Int63n(1e16)).UTC())
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(fmt.Sprintf(`{"f:a":{"k:{\"ip\":\"%d\"}":{},"k:{\"b\":1}":{"f:c":{}}}}`, c.Intn(5)))
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
	)
}

// often is how often something must come so that it is surely interned, with a prototype.
const often = 40

// pack packs a value as an object of its own.
func pack[T any](p *Packer, in *T) (Value, bool) {
	p.owner++
	return p.Pack(nil, nil, TypeOf(reflect.TypeFor[T]()), in)
}

func unpack[T any](w *View, v Value, out *T) {
	unpackInto(w, v, reflect.ValueOf(out))
}

func unpackInto(w *View, v Value, out reflect.Value) {
	u := w.Unpacker()
	defer u.Close()
	u.Unpack(v, nil, TypeOf(out.Type().Elem()), out.Elem())
}

// equal compares as deeply as it goes: nil is not empty, and equal quantities in two forms are not
// the same. The values refer to nothing by two pointers, so that their hashes are the same too.
func equal(t *testing.T, got, want any) {
	t.Helper()
	if identical(reflect.ValueOf(got), reflect.ValueOf(want)) && dump.ForHash(got) == dump.ForHash(want) {
		return
	}
	t.Fatalf("got\n%s\nwant\n%s", dump.Pretty(got), dump.Pretty(want))
}

// kinds are all Go types of client-go's scheme that are kinds of objects.
func kinds() []reflect.Type {
	types := slices.Collect(maps.Values(scheme.Scheme.AllKnownTypes()))
	types = slices.DeleteFunc(types, func(t reflect.Type) bool {
		return !reflect.PointerTo(t).Implements(reflect.TypeFor[metav1.Object]())
	})
	slices.SortFunc(types, func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(types)
}

// Values of every kind of client-go's scheme are unpacked as they were packed.
func TestEveryKind(t *testing.T) {
	f, p := filler(1), NewPacker()
	for _, typ := range kinds() {
		for range 3 {
			in, out := reflect.New(typ), reflect.New(typ)
			f.Fill(in.Interface())
			header := []string{"a", "", typ.String()}
			v, ok := p.Pack(nil, header, TypeOf(typ), in.Interface())
			if !ok {
				t.Errorf("%s is not packed", typ)
				break
			}
			unpackInto(p.View(), v, out)
			equal(t, out.Interface(), in.Interface())
			h := p.View().Header(v)
			for _, want := range header {
				if got, ok := h.Next(); !ok || got != want {
					t.Fatalf("got %q in the header, want %q", got, want)
				}
			}
			if _, ok := h.Next(); ok {
				t.Fatal("the header does not end")
			}
		}
	}
}

// However often a value is packed, and whatever it shares by then, what comes back
// is equal to it and shares nothing that can be changed.
func TestShared(t *testing.T) {
	f := filler(2)
	for _, typ := range append(kinds(), reflect.TypeFor[unstructured.Unstructured]()) {
		p, in := NewPacker(), reflect.New(typ)
		if u, ok := in.Interface().(*unstructured.Unstructured); ok {
			u.Object = deepContent()
		} else {
			f.Fill(in.Interface())
		}
		var v Value
		for n := range often {
			v, _ = p.Pack(nil, []string{fmt.Sprint(n)}, TypeOf(typ), in.Interface())
		}
		for range 3 {
			out := reflect.New(typ)
			unpackInto(p.View(), v, out)
			equal(t, out.Interface(), in.Interface())
			mutate(out.Elem())
		}
	}
}

func deepContent() map[string]any {
	leaf := func(s string) any {
		return map[string]any{"name": s, "numbers": []any{int64(1), 2.5, nil, true}, "text": "a text that is long enough to be shared"}
	}
	return map[string]any{"kind": "A", "list": []any{leaf("a"), leaf("b"), leaf("a")}, "deep": map[string]any{"a": leaf("a"), "empty": map[string]any{}}}
}

// mutate changes everything that can be changed in a value.
func mutate(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[resource.Quantity]():
			q := v.Interface().(resource.Quantity)
			q.Add(resource.MustParse("7"))
			return
		case reflect.TypeFor[metav1.FieldsV1]():
			if !v.CanAddr() {
				return
			}
			v.Addr().Interface().(*metav1.FieldsV1).SetRawString("mutated")
			return
		}
		for i := range v.NumField() {
			mutate(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mutate(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			mutate(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			mutate(v.Index(i))
		}
		// What is appended must not be seen by others.
		if v.CanSet() && v.Cap() > v.Len() {
			mutate(v.Slice(0, v.Cap()))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			mutate(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("mutated")
		}
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}

func TestUnstructured(t *testing.T) {
	p := NewPacker()
	for _, content := range []map[string]any{
		nil,
		{},
		{"a": nil, "b": true, "c": false, "d": "text", "e": int64(-7), "f": 1.5, "g": "", "h": float64(3)},
		{"list": []any{}, "nil list": []any(nil), "map": map[string]any{}, "nil map": map[string]any(nil)},
		{"deep": []any{map[string]any{"a": []any{int64(1), "a", map[string]any{"a": "a"}}}}},
	} {
		in, out := &unstructured.Unstructured{Object: content}, &unstructured.Unstructured{}
		v, ok := pack(p, in)
		if !ok {
			t.Fatalf("%v is not packed", content)
		}
		unpack(p.View(), v, out)
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("got %#v, want %#v", out, in)
		}
	}
}

// Any JSON document is unpacked as it was packed, as unstructured content and as an
// object of a type, alone and beside others that are much like it.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","metadata":{"name":"a","labels":{"app":"a"},"managedFields":[{"fieldsV1":{"f:a":{"k:{\"b\"}":{}}}}]},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"}}}]}}`))
	f.Add([]byte(`{"a":[{"b":null},{"b":[1,2.5,"x",true]},{}],"c":{"d":{"e":{"f":"the same text as here"},"g":"the same text as here"}}}`))
	p := NewPacker()
	n := 0
	again := func(t *testing.T, in any) {
		typ := reflect.TypeOf(in).Elem()
		for range often {
			n++
			v, ok := p.Pack(nil, []string{strconv.Itoa(n)}, TypeOf(typ), in)
			if !ok {
				return
			}
			out := reflect.New(typ)
			unpackInto(p.View(), v, out)
			equal(t, out.Interface(), in)
			mutate(out.Elem())
			if n%3 == 0 {
				p.Release(v)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var u unstructured.Unstructured
		if json.Unmarshal(data, &u.Object) == nil {
			again(t, &u)
		}
		var pod corev1.Pod
		if json.Unmarshal(data, &pod) == nil {
			again(t, &pod)
		}
	})
}

// odd has fields that API types have seldom or never.
type odd struct {
	Array   [2]int
	Float   float32
	Uint    uint16
	Bytes   []byte
	Times   map[string]metav1.Time
	Slices  map[int][]string
	Pointer **string
	Self    *odd
	Any     any
	Func    func()
	Chan    chan int
	Iface   fmt.Stringer
	Time    time.Time
	hidden  int
}

func TestOddTypes(t *testing.T) {
	s := new("s")
	full := odd{
		Array: [2]int{1, -2}, Float: 1.25, Uint: 65535, Bytes: []byte{}, Times: map[string]metav1.Time{"a": metav1.Unix(1, 0)},
		Slices: map[int][]string{1: nil, 2: {}, 3: {"a", ""}}, Pointer: &s, Self: &odd{Any: "text"}, Any: int64(1), Time: time.Unix(1, 2).UTC(),
	}
	p := NewPacker()
	for _, in := range []odd{{}, full} {
		var out odd
		v, ok := pack(p, &in)
		if !ok {
			t.Fatalf("%v is not packed", in)
		}
		unpack(p.View(), v, &out)
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("got %#v, want %#v", out, in)
		}
	}
}

// What would not come back as it was is refused, and leaves nothing behind.
func TestRefused(t *testing.T) {
	for _, in := range []odd{
		{hidden: 1}, {Func: func() {}}, {Chan: make(chan int)}, {Iface: time.Second}, {Any: 1}, {Any: []any{struct{}{}}},
		{Any: map[string]any{"a": 1}}, {Self: &odd{hidden: 1}}, {Time: time.Now()},
	} {
		p := NewPacker()
		for range 3 {
			if _, ok := p.Pack(nil, []string{"a", "b"}, TypeOf(reflect.TypeFor[odd]()), &in); ok {
				t.Fatalf("%v is packed", in)
			}
		}
		unused(t, p)
	}
}

// balanced checks the accounts of the intern table.
func balanced(t *testing.T, p *Packer) {
	t.Helper()
	want := p.table.Stats()
	if p.table.Size() != want.Size || p.table.Debt() != want.Debt {
		t.Fatalf("the size is %d and the debt %d, want %d and %d",
			p.table.Size(), p.table.Debt(), want.Size, want.Debt)
	}
}

func unused(t *testing.T, p *Packer) {
	t.Helper()
	p.table.FreeIdle(p.freed)
	if n := p.table.Stats().Used; n > 0 {
		t.Fatalf("%d entries are used by no value", n)
	}
}

// An object that changes often shares nothing with itself.
func TestOneObject(t *testing.T) {
	p := NewPacker()
	for n := range 10 {
		in := object{A: "always the same", Part: &piece{Text: "a part that is long enough to be shared"}, B: fmt.Sprint(n)}
		v, _ := p.Pack(nil, []string{"its name"}, TypeOf(reflect.TypeFor[object]()), &in)
		p.Release(v)
	}
	if n := p.table.Stats().IDs; n > 0 {
		t.Errorf("%d things are shared", n)
	}
}

type object struct {
	A, B, C string
	Part    *piece
	Map     map[string]string
}

type piece struct {
	Text  string
	Parts []piece
}

// held is a value that a reader uses.
type held struct {
	value Value
	view  *View
	want  object
}

func (h held) check(t *testing.T) {
	t.Helper()
	var got object
	if unpack(h.view, h.value, &got); !reflect.DeepEqual(got, h.want) {
		t.Fatalf("got %v, want %v", got, h.want)
	}
}

// Values come and go, and their strings with them; whoever holds a view reads on.
func TestInterned(t *testing.T) {
	defer func(n int) { intern.MinIdle = n }(intern.MinIdle)
	intern.MinIdle = 4
	r := rand.New(rand.NewPCG(1, 2))
	p := NewPacker()
	var live, old []held
	for step := range 20_000 {
		if len(live) > 0 && r.IntN(5) < 2 {
			i := r.IntN(len(live))
			live[i].view = p.View()
			old = append(old[max(0, len(old)-50):], live[i])
			p.Release(live[i].value)
			live = slices.Delete(live, i, i+1)
		} else if len(live) < 100 {
			text := func() string { return fmt.Sprint("text ", step/500*20+r.IntN(20)) }
			deep := &piece{"a part that is longer than others", []piece{{text(), nil}, {"and its own part", []piece{{Text: "innermost of all parts"}}}}}
			want := object{text(), text(), fmt.Sprint(step), deep, map[string]string{"the key of a map": text()}}
			v, ok := pack(p, &want)
			if !ok {
				t.Fatal("not packed")
			}
			live = append(live, held{value: v, want: want})
		}
		if step%20 > 0 {
			continue
		}
		balanced(t, p)
		for _, h := range live {
			h.view = p.View()
			h.check(t)
		}
		for _, h := range old {
			h.check(t)
		}
	}
	if p.table.Stats().IDs > 800 {
		t.Errorf("the intern table has grown to %d IDs", p.table.Stats().IDs)
	}
	for _, h := range live {
		p.Release(h.value)
	}
	unused(t, p)
	if d := &p.admission; d.values != 0 || d.count != 0 {
		t.Errorf("%d values of %d bytes are left of none", d.count, d.values)
	}
}

// Readers unpack while a subtree that they unpack is interned, and gets a prototype.
func TestReadersWhilePacking(t *testing.T) {
	p, typ := NewPacker(), TypeOf(reflect.TypeFor[corev1.Pod]())
	views, want := make(chan *View), pod(0)
	values := make([]Value, 2*often)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for w := range views {
				for n := range often {
					var out corev1.Pod
					u := w.Unpacker()
					u.Unpack(values[n], nil, typ, reflect.ValueOf(&out).Elem())
					u.Close()
					if !equality.Semantic.DeepEqual(&out, want) {
						t.Error("a pod was unpacked as another one")
					}
				}
			}
		})
	}
	for n := range values {
		values[n], _ = p.Pack(nil, []string{fmt.Sprint(n)}, typ, pod(0))
		if n >= often {
			views <- p.View()
		}
	}
	close(views)
	readers.Wait()
}
