package validation

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// opaque are the structs that are changed as a whole.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():    true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[metav1.Time]():          true,
	reflect.TypeFor[metav1.MicroTime]():     true,
	reflect.TypeFor[metav1.Duration]():      true,
	reflect.TypeFor[metav1.FieldsV1]():      true,
	reflect.TypeFor[metav1.TypeMeta]():      true,
	reflect.TypeFor[runtime.RawExtension](): true,
}

// mutator changes objects at random.
type mutator struct {
	*rand.Rand
	*corpus
	graph
	aim reflect.Type // the type to change, or nil
}

// chance reports true in percent of the calls.
func (m *mutator) chance(percent int) bool { return m.IntN(100) < percent }

// object changes one to three fields of an object; weights are the weights of its fields by name.
func (m *mutator) object(obj runtime.Object, weights map[string]int) {
	n := 1
	for n < 3 && m.chance(25) {
		n++
	}
	v := reflect.ValueOf(obj).Elem()
	for range n {
		m.root(v, weights)
	}
}

// root changes a field of an object.
func (m *mutator) root(v reflect.Value, weights map[string]int) {
	total := 0
	weight := func(i int) int {
		name := v.Type().Field(i).Name
		if w, ok := weights[name]; ok {
			return w
		}
		return 8
	}
	for i := range v.NumField() {
		total += weight(i)
	}
	at := m.IntN(total)
	for i := range v.NumField() {
		if at -= weight(i); at < 0 {
			m.take(v.Field(i).Type())
			m.change(v.Field(i), fieldKey{v.Type(), v.Type().Field(i).Name})
			return
		}
	}
}

// change changes something in v, which is the field at key.
func (m *mutator) change(v reflect.Value, key fieldKey) {
	if opaque[v.Type()] {
		m.scalar(v, key)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			m.fill(v.Elem(), key, 0)
			if m.leads(v.Type()) && m.chance(60) {
				m.change(v.Elem(), key)
			}
		case m.chance(15):
			v.SetZero()
		default:
			m.change(v.Elem(), key)
		}
	case reflect.Struct:
		m.changeStruct(v)
	case reflect.Slice:
		m.changeSlice(v, key)
	case reflect.Map:
		m.changeMap(v, key)
	default:
		m.scalar(v, key)
	}
}

func (m *mutator) changeStruct(v reflect.Value) {
	if v.NumField() == 0 {
		return
	}
	if v.Type() == m.aim {
		m.aim = nil
	}
	if m.chance(4) {
		if from, ok := m.known(v.Type()); ok {
			v.Set(from)
			return
		}
	}
	var set []int
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set = append(set, i)
		}
	}
	i := m.IntN(v.NumField())
	if len(set) > 0 && m.chance(50) {
		i = set[m.IntN(len(set))]
	}
	if fields := m.toward(v.Type()); len(fields) > 0 {
		i = pick(m, fields)
	}
	f := v.Type().Field(i)
	if !f.IsExported() || f.Name == "ManagedFields" {
		return
	}
	if union(v.Type()) && v.Field(i).IsZero() && m.chance(70) {
		v.SetZero()
	}
	m.change(v.Field(i), fieldKey{v.Type(), f.Name})
}

// union reports whether a struct has pointers only. Most often one of them is set.
func union(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Type.Kind() != reflect.Pointer {
			return false
		}
	}
	return true
}

func (m *mutator) changeSlice(v reflect.Value, key fieldKey) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(m.text(key, v.Type())))
		return
	}
	n := v.Len()
	if n > 0 && m.leads(v.Type()) && m.chance(80) {
		m.change(v.Index(m.IntN(n)), key)
		return
	}
	switch op := m.IntN(20); {
	case n == 0 || op < 3: // one more
		item := reflect.New(v.Type().Elem()).Elem()
		m.fill(item, key, 0)
		v.Set(reflect.Append(copied(v), item))
	case op < 5: // one less
		i := m.IntN(n)
		short := copied(v)
		v.Set(reflect.AppendSlice(short.Slice(0, i), short.Slice(i+1, n)))
	case op < 7: // one twice, and perhaps changed
		item := copied(v.Index(m.IntN(n)))
		v.Set(reflect.Append(copied(v), item))
		if m.chance(70) {
			m.change(v.Index(n), key)
		}
	case op < 8 && n > 1:
		i, j := m.IntN(n), m.IntN(n)
		a, b := copied(v.Index(i)), copied(v.Index(j))
		v.Index(i).Set(b)
		v.Index(j).Set(a)
	case op < 9:
		if from, ok := m.known(v.Type()); ok {
			v.Set(from)
		} else {
			v.SetZero()
		}
	case op < 10 && m.chance(30):
		v.SetZero()
	default:
		m.change(v.Index(m.IntN(n)), key)
	}
}

func (m *mutator) changeMap(v reflect.Value, key fieldKey) {
	keys := sortedKeys(v)
	entry := func() (reflect.Value, reflect.Value) {
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		m.scalar(k, fieldKey{key.owner, key.name + " key"})
		m.fill(e, fieldKey{key.owner, key.name + " value"}, 0)
		return k, e
	}
	fresh := reflect.MakeMap(v.Type())
	for _, k := range keys {
		fresh.SetMapIndex(k, v.MapIndex(k))
	}
	switch op := m.IntN(10); {
	case len(keys) == 0 || op < 4:
		fresh.SetMapIndex(entry())
	case op < 6:
		fresh.SetMapIndex(pick(m, keys), reflect.Value{})
	case op < 7:
		if from, ok := m.known(v.Type()); ok {
			fresh = from
		}
	default:
		k := pick(m, keys)
		e := copied(v.MapIndex(k))
		m.change(e, fieldKey{key.owner, key.name + " value"})
		fresh.SetMapIndex(k, e)
	}
	v.Set(fresh)
}

// fill sets an empty value.
func (m *mutator) fill(v reflect.Value, key fieldKey, depth int) {
	if opaque[v.Type()] {
		m.scalar(v, key)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), key, depth)
	case reflect.Struct:
		if m.chance(60) {
			if from, ok := m.known(v.Type()); ok {
				v.Set(from)
				return
			}
		}
		m.fillStruct(v, depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.text(key, v.Type())))
			return
		}
		if m.chance(50) {
			if from, ok := m.known(v.Type()); ok {
				v.Set(from)
				return
			}
		}
		item := reflect.New(v.Type().Elem()).Elem()
		m.fill(item, key, depth+1)
		v.Set(reflect.Append(v, item))
	case reflect.Map:
		if from, ok := m.known(v.Type()); ok && m.chance(50) {
			v.Set(from)
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		m.changeMap(v, key)
	default:
		m.scalar(v, key)
	}
}

// fillStruct sets the fields of an empty struct that are required, and some of the others.
func (m *mutator) fillStruct(v reflect.Value, depth int) {
	if depth > 4 || v.NumField() == 0 {
		return
	}
	if union(v.Type()) {
		i := m.IntN(v.NumField())
		m.fill(v.Field(i), fieldKey{v.Type(), v.Type().Field(i).Name}, depth+1)
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		percent := 25 / (depth + 1)
		if !strings.Contains(f.Tag.Get("json"), "omitempty") {
			percent = 90
		}
		if f.IsExported() && f.Name != "ManagedFields" && m.chance(percent) {
			m.fill(v.Field(i), fieldKey{v.Type(), f.Name}, depth+1)
		}
	}
}

// known returns a copy of a value of this type in the seeds.
func (m *mutator) known(t reflect.Type) (reflect.Value, bool) {
	all := m.values[t]
	if len(all) == 0 {
		return reflect.Value{}, false
	}
	return copied(all[m.IntN(len(all))]), true
}

// copied returns a deep copy, which is addressable.
func copied(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	copyValue(to, v)
	return to
}

func copyValue(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyValue(to.Elem(), from.Elem())
		}
	case reflect.Struct:
		to.Set(from)
		if !opaque[from.Type()] {
			for i := range from.NumField() {
				if from.Type().Field(i).IsExported() {
					copyValue(to.Field(i), from.Field(i))
				}
			}
		}
	case reflect.Slice:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			copyValue(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.MakeMap(from.Type()))
		for _, k := range from.MapKeys() {
			to.SetMapIndex(k, copied(from.MapIndex(k)))
		}
	default:
		to.Set(from)
	}
}

// scalar sets a value that has no parts.
func (m *mutator) scalar(v reflect.Value, key fieldKey) {
	switch p := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*p = resource.MustParse(pick(m, quantities))
		return
	case *intstr.IntOrString:
		if m.chance(50) {
			*p = intstr.FromInt32(int32(pick(m, integers)))
		} else {
			*p = intstr.FromString(pick(m, percentages))
		}
		return
	case *metav1.Time:
		*p = metav1.NewTime(pick(m, times))
		return
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(pick(m, times))
		return
	case *metav1.Duration:
		p.Duration = time.Duration(pick(m, integers)) * time.Second
		return
	case *runtime.RawExtension:
		*p = runtime.RawExtension{Raw: []byte(pick(m, documents))}
		return
	case *metav1.FieldsV1, *metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.String:
		if changed, ok := m.document(v.String()); ok {
			v.SetString(changed)
			return
		}
		v.SetString(m.text(key, v.Type()))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64, reflect.Int:
		n := pick(m, integers)
		if m.chance(30) {
			n = v.Int() + int64(m.IntN(3)) - 1
		}
		if v.Kind() == reflect.Int32 {
			n = int64(int32(n))
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(m.IntN(256)))
	case reflect.Float64:
		v.SetFloat(pick(m, []float64{0, 1, -1, 0.5, 1e9}))
	}
}

// text chooses a string for a field.
func (m *mutator) text(key fieldKey, t reflect.Type) string {
	if enum := m.enums[t.PkgPath()+"."+t.Name()]; len(enum) > 0 && m.chance(80) {
		return pick(m, enum)
	}
	if seen := m.fields[key]; len(seen) > 0 && m.chance(45) {
		return pick(m, seen)
	}
	if strings.HasSuffix(key.name, " key") && m.chance(50) {
		return pick(m, m.keys)
	}
	return pick(m, texts)
}

func pick[T any](m *mutator, from []T) T { return from[m.IntN(len(from))] }

var (
	quantities  = []string{"0", "1", "-1", "100m", "1500m", "1Gi", "2Gi", "0.5", "1e3", "9223372036854775807", "-100Mi", "1m", "10", "8Ei", "1n", "64Ki", "5"}
	percentages = []string{"0%", "50%", "100%", "101%", "-1%", "http", "", "1", "a b", "25%", "a-very-long-port-name", "80"}
	integers    = []int64{0, 1, -1, 2, 3, 5, 7, 10, 30, 60, 80, 100, 101, 255, 256, 443, 600, 1000, 1001, 3600, 8080, 10000, 30000, 32767, 65535, 65536, 86400, 100000, 100001, math.MaxInt32, math.MinInt32, math.MaxInt64}
	documents   = []string{`{"a":1}`, `{}`, `[1]`, `"a"`, `null`, `{"apiVersion":"v1","kind":"Config"}`}
	times       = []time.Time{{}, time.Unix(0, 0), time.Unix(1700000000, 0), time.Unix(1700000001, 0), time.Unix(4000000000, 0)}
	texts       = []string{
		"", "a", "b", "c", "x-y", "web", "a.b", "example.com", "example.com/a", "example.com/B_c.d", "kubernetes.io/a", "k8s.io/x", "sub.kubernetes.io/x",
		"A", "a_b", "a b", "-a", "a-", ".a", "a..b", "a/b/c", "/", "/a", "/a/../b", "../a", "..", ".", "a/../b", "/dev/sda", "C:\\a", "~", "*", "*.example.com", "*.com",
		"10.0.0.1", "010.0.0.1", "192.168.1.300", "::1", "fd00::1", "::ffff:10.0.0.1", "127.0.0.1", "169.254.0.1", "224.0.0.1", "0.0.0.0", "10.0.0.0/24", "10.0.0.1/24", "fd00::/64", "10.0.0.0/33", "0.0.0.0/0", "10.0.0.0/024",
		"80", "http", "https", "0", "-1", "1", "65536", "1Gi", "50%", "true", "True", "false", "None", "Always", "All", "default", "kube-system",
		"https://example.com/a", "http://a", "https://a?b=c", "https://u:p@a", "ftp://a", "v1", "v1beta1", "apps/v1", "a/b/c/d", "Pod", "pods", "pods/status", "*/*", "pods/*",
		"metadata.name", "metadata.labels['a']", "status.podIP", "spec.nodeName", "limits.cpu", "requests.memory", "cpu", "memory", "storage", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "requests.example.com/gpu", "count/pods", "requests.storage",
		"$(A)", "$(A", "A=B", "A B", "1A", "a@b", "é", "日本", "a\nb", "a\tb", "\x00", `a"b`, "a:b", "system:node:a", "system:", "nginx:1", " nginx", "nginx@sha256:0", "object.a > 1", "1 +", "true == true",
		"self.a", "* * * * *", "@daily", "TZ=UTC * * * * *", "@every 1s", "61 * * * *", "Europe/Berlin", "Local", "UTC", "Asia/../a", "unconfined", "runtime/default", "localhost/a", "localhost/../a",
		"00000000-0000-0000-0000-000000000001", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a.", 126) + "a", strings.Repeat("x", 1025),
		strings.Repeat("a", 316), strings.Repeat("a", 15), strings.Repeat("a", 16), "a.b.c", "a-b-c", "node.kubernetes.io/exclude", "Exact", "NoSchedule", "Exists",
	}
)
