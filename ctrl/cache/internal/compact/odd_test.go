package compact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that lead to themselves in all ways there are.
type (
	ring   struct{ Next *ring }
	nest   []nest
	forest map[string]forest
	tunnel *tunnel
	grid   struct{ Cells [2][]grid }
	twins  struct{ A, B *twins }
)

type key struct {
	Name string
	N    float64
}

type Embedded struct {
	Text  string
	Parts []string
}

type embedded struct {
	Text string
	Map  map[string]string
}

// packs packs the variable of a pointer for many objects, so that its parts are shared, and compares
// the unpacked value each time.
func packs(t *testing.T, in reflect.Value) (ok bool) {
	t.Helper()
	p, typ := NewPacker(), in.Type().Elem()
	for n := range often {
		v, ok := p.Pack(nil, []string{fmt.Sprint(n)}, TypeOf(typ), in.Interface())
		if !ok {
			unused(t, p)
			return false
		}
		if n%8 > 0 && n < often-2 {
			continue
		}
		for range 2 {
			out := reflect.New(typ)
			unpackInto(p.View(), v, out)
			if !identical(in.Elem(), out.Elem()) {
				t.Fatalf("%v: got %#v, want %#v", typ, out.Elem(), in.Elem())
			}
			mutate(out.Elem())
		}
	}
	return true
}

// identical reports whether two values are equal to the bit, in exported fields and others: nil is
// not empty, zero is not zero with a sign, and a NaN is itself.
func identical(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() {
		return false
	} else if !a.IsValid() {
		return true
	} else if a.Type() != b.Type() {
		return false
	}
	if a.Type() == reflect.TypeFor[*time.Location]() {
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && identical(a.Elem(), b.Elem())
	}
	switch a.Kind() {
	case reflect.Float32:
		if a.CanInterface() {
			small := reflect.TypeFor[float32]() // on the way to float64, a bit can change
			return math.Float32bits(a.Convert(small).Interface().(float32)) == math.Float32bits(b.Convert(small).Interface().(float32))
		}
		fallthrough
	case reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || identical(a.Elem(), b.Elem()))
	case reflect.Slice:
		if a.IsNil() != b.IsNil() {
			return false
		}
		fallthrough
	case reflect.Array:
		for i := range min(a.Len(), b.Len()) {
			if !identical(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Map:
		return a.IsNil() == b.IsNil() && a.Len() == b.Len() && sameEntries(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !identical(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return a.IsNil() && b.IsNil()
	default:
		return a.Equal(b)
	}
}

// sameEntries finds for each entry of one map one of the other, also if keys equal nothing.
func sameEntries(a, b reflect.Value) bool {
	type entry struct{ key, value reflect.Value }
	var left []entry
	for e := b.MapRange(); e.Next(); {
		left = append(left, entry{e.Key(), e.Value()})
	}
next:
	for e := a.MapRange(); e.Next(); {
		for i, o := range left {
			if identical(e.Key(), o.key) && identical(e.Value(), o.value) {
				left = append(left[:i], left[i+1:]...)
				continue next
			}
		}
		return false
	}
	return len(left) == 0
}

// forms are quantities as a user may write them. Some are in no canonical form, and some equal
// others.
var forms = []string{
	"0", "0m", "0.0", "00", "-0", "+1", "1", "1.0", "1.000", "0.5", ".5", "5e-1", "500m", "1000m", "1500m", "1e3", "1E3", "1000", "1k", "1024", "1024Mi", "1Gi", "0.5Gi", "1.5Gi", "8Gi", "128Mi",
	"1n", "0.1n", "0.000000001", "12e6", "9Ei", "8Ei", "-3", "-0.5", "123456789012345678901234567890", "-1.5Ti", "0.1", "100m", "0.100", "1e-9", "1u", "3E", "1000Ki", "1024Ki",
}

// quantities returns a quantity of each form, as a decoder makes it or after String was called.
func quantities(printed bool) map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	for _, form := range forms {
		q := resource.MustParse(form)
		if printed {
			_ = q.String()
		}
		all[form] = q
	}
	return all
}

func decimal(unscaled int64, scale inf.Scale) *resource.Quantity {
	return resource.NewDecimalQuantity(*inf.NewDec(unscaled, scale), resource.DecimalSI)
}

// What a Go type can hold and JSON cannot say, or not often.
func TestOddValues(t *testing.T) {
	nan, minus := math.NaN(), math.Copysign(0, -1)
	signaling := math.Float64frombits(0x7ff0000000000001)
	deep := any("the innermost")
	for range 300 {
		deep = map[string]any{"deeper": []any{deep}}
	}
	zone := time.FixedZone("elsewhere", 3600)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cycle := &ring{}
	cycle.Next = cycle
	around := map[string]any{}
	around["again"] = []any{around}
	crowd := &twins{}
	for range 60 {
		crowd = &twins{crowd, crowd}
	}
	var bottomless any = "the innermost"
	for range 100_000 {
		bottomless = []any{bottomless}
	}
	empty := &metav1.FieldsV1{}
	empty.SetRawBytes([]byte{})
	pp := new(new(new("three steps away")))
	for name, c := range map[string]struct {
		in     any
		packed bool
	}{
		"map by numbers that are none":       {map[float64]string{nan: "a long text, one", signaling: "a long text, two", 1: "x"}, true},
		"map by zero with a sign":            {map[float64]int{minus: 1}, true},
		"map by small numbers that are none": {map[float32][]string{float32(nan): {"a long text", ""}}, true},
		"map by structs":                     {map[key]*key{{"a", nan}: {"a", nan}, {"a", nan}: nil, {"b", 1}: {"b", minus}}, true},
		"map by arrays":                      {map[[2]float64]int{{nan, 1}: 1, {nan, 2}: 2, {}: 3}, true},
		"map by anything":                    {map[any]any{nan: "a", "a": nan, int64(1): true, nil: nil, true: []any{}}, true},
		"map by anything else":               {map[any]string{1: "an int", key{"a", 1}: "a struct"}, false},
		"map by an interface":                {map[fmt.Stringer]int{time.Second: 1}, false},
		"map by pointers":                    {map[*string]int{new("a"): 1}, false},
		"map by structs with pointers":       {map[struct{ P *string }]int{{new("a")}: 1}, false},
		"map by times":                       {map[time.Time]int{time.Unix(1, 0): 1}, false},
		"map by channels":                    {map[chan int]int{make(chan int): 1}, false},
		"map of maps":                        {map[int]map[bool]map[string]int{1: {true: {"a": 1}, false: nil}, 2: nil, 3: {}}, true},
		"map of functions":                   {map[string]func(){"a": nil}, false},
		"floats":                             {[]float64{nan, signaling, minus, 0, math.Inf(-1), math.SmallestNonzeroFloat64}, true},
		"small floats":                       {[]float32{float32(nan), math.Float32frombits(0x7f800001), float32(minus), 0}, true},
		"pointers to floats":                 {[]*float64{&nan, &minus, nil, new(float64)}, true},
		"anything":                           {[]any{nan, minus, signaling, nil, int64(-1), []any(nil), []any{}, map[string]any(nil), map[string]any{}}, true},
		"nil and empty slices":               {[][][]string{nil, {}, {nil}, {{}}, {{""}}, {nil, {}, {"a"}}}, true},
		"nil and empty maps":                 {[]map[string]map[string][]byte{nil, {}, {"": nil}, {"a": {}}, {"a": {"b": nil}}, {"a": {"b": {}}}}, true},
		"nil and empty bytes":                {[][]byte{nil, {}, {0}}, true},
		"pointers to pointers":               {[]***string{pp, new(new(*string)), new(**string), nil}, true},
		"pointers to slices and maps":        {struct{ P *[]*map[string]*[]int }{&[]*map[string]*[]int{nil, {}, {"a": nil, "b": {}}, new(map[string]*[]int)}}, true},
		"nothing":                            {[]struct{}{{}, {}}, true},
		"many nothings":                      {struct{ A, B []struct{} }{make([]struct{}, 5), make([]struct{}, 2*minKept)}, true},
		"pointers to nothing":                {[]*struct{}{{}, nil}, true},
		"arrays":                             {[3][2][]any{{nil, {}}, {{nil}, {"a"}}}, true},
		"arrays of nothing":                  {[]any{[0]int{}}, false},
		"empty arrays":                       {[][0]int{{}, {}}, true},
		"embedded":                           {struct{ Embedded }{Embedded{"a text to share", []string{}}}, true},
		"embedded pointer":                   {struct{ *Embedded }{&Embedded{Text: "a text to share"}}, true},
		"embedded, not exported":             {struct{ embedded }{embedded{"a text to share", map[string]string{}}}, true},
		"embedded pointer, not exported":     {struct{ *embedded }{&embedded{}}, false},
		"not exported, but empty":            {struct{ hidden *int }{}, true},
		"not exported":                       {struct{ hidden *int }{new(int)}, false},
		"an interface":                       {struct{ E error }{fmt.Errorf("x")}, false},
		"an interface, but empty":            {struct{ E error }{}, true},
		"a function":                         {[]func(){nil}, false},
		"a channel":                          {struct{ C chan int }{make(chan int)}, false},
		"complex":                            {[]complex128{1i}, false},
		"typed, as anything":                 {[]any{[]string{"a"}}, false},
		"a number, as anything":              {[]any{float32(1)}, false},
		"a pointer, as anything":             {[]any{new("a")}, false},
		"leads to its own type":              {ring{&ring{&ring{}}}, true},
		"slices of themselves":               {nest{nil, {}, {{}, nil, {{}}}}, true},
		"maps of themselves":                 {forest{"a": nil, "b": {}, "c": {"d": {"e": {}}}}, true},
		"pointers to themselves":             {[]tunnel{nil, new(tunnel)}, true},
		"arrays of slices of themselves":     {grid{[2][]grid{{{}, {}}, nil}}, true},
		"a circle":                           {*cycle, false},
		"a circle of anything":               {around, false},
		"one thing in very many ways":        {*crowd, false},
		"deep":                               {[]any{deep}, true},
		"too deep":                           {[]any{bottomless}, false},
		"a huge string":                      {[]string{strings.Repeat("a huge string ", 1<<18), strings.Repeat("a huge string ", 1<<18)}, true},
		"times":                              {[]time.Time{{}, time.Unix(1, 2), time.Unix(-1, 0).UTC(), time.Date(-5000, 1, 1, 0, 0, 0, 7, time.UTC), time.Unix(math.MaxInt64, 0)}, true},
		"times with an offset": {[]time.Time{
			time.Unix(1, 2).In(time.FixedZone("", 3600)), time.Unix(1, 2).In(time.FixedZone("", -20700)), time.Unix(1, 2).In(time.FixedZone("", 1)), time.Unix(1, 2).In(time.FixedZone("", 0)),
			time.Unix(1, 0).In(zone), (time.Time{}).In(zone), time.Unix(1, 0).In(time.FixedZone("UTC", 0)), time.Unix(1, 0).In(time.FixedZone("", 90000)),
		}, true},
		"a time in Berlin":  {[]metav1.Time{metav1.NewTime(time.Unix(1, 0).In(berlin))}, false},
		"a time of a clock": {[]metav1.Time{metav1.Now()}, false},
		"micro times":       {[]*metav1.MicroTime{{}, nil, new(metav1.NewMicroTime(time.Unix(1, 234567000)))}, true},
		"durations":         {[]metav1.Duration{{Duration: -1}, {}}, true},
		"quantities": {[]resource.Quantity{
			{}, resource.MustParse("0"), resource.MustParse("0Gi"), resource.MustParse("1e3"), resource.MustParse("1E"), resource.MustParse("-1.5Gi"), resource.MustParse("100m"),
			resource.MustParse("123456789012345678901234567890"), resource.MustParse("0.000000001"), *resource.NewQuantity(5, resource.BinarySI), *resource.NewMilliQuantity(1, resource.DecimalExponent),
			{Format: resource.BinarySI}, {Format: "other"}, *decimal(0, 0), *decimal(-5, 3), *decimal(math.MaxInt64, -9),
		}, true},
		"quantities of any form": {[]map[string]resource.Quantity{quantities(false), quantities(true)}, true},
		"quantities by name":     {map[string]*resource.Quantity{"a": new(resource.MustParse("1")), "b": nil, "c": {}}, true},
		"numbers or strings":     {[]intstr.IntOrString{{}, intstr.FromInt32(-1), intstr.FromString("80%"), {Type: 7, IntVal: 1, StrVal: "both"}}, true},
		"raw":                    {[]runtime.RawExtension{{}, {Raw: []byte{}}, {Raw: []byte(`{"kind":"A"}`)}}, true},
		"raw, with an object":    {[]runtime.RawExtension{{Object: &corev1.Pod{}}}, false},
		"fields":                 {[]*metav1.FieldsV1{nil, {}, empty, metav1.NewFieldsV1(`{"f:a":{}}`), metav1.NewFieldsV1(`"k:{"k:{`), metav1.NewFieldsV1("\xff")}, true},
		"not UTF-8":              {map[string]string{"\xff\xfe": "\x00\xff a text to share"}, true},
		"all numbers": {struct {
			A int8
			B int16
			C int
			D uint64
			E uintptr
			F uint
			G int64
		}{-128, -32768, math.MinInt, math.MaxUint64, 1, math.MaxUint, math.MaxInt64}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := reflect.New(reflect.TypeOf(c.in))
			in.Elem().Set(reflect.ValueOf(c.in))
			if got := packs(t, in); got != c.packed {
				t.Errorf("packed: %v, want %v", got, c.packed)
			}
			// It is no different within other things.
			list := reflect.New(reflect.SliceOf(in.Type()))
			list.Elem().Set(reflect.Append(list.Elem(), in, reflect.Zero(in.Type()), in))
			if got := packs(t, list); got != c.packed {
				t.Errorf("packed in a list: %v, want %v", got, c.packed)
			}
		})
	}
}

// maker makes types and values of them at random.
type maker struct{ *rand.Rand }

var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](), reflect.TypeFor[float32](), reflect.TypeFor[float64](),
	reflect.TypeFor[any](), reflect.TypeFor[[]byte](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[struct{}](),
	reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[nest](), reflect.TypeFor[forest](), reflect.TypeFor[grid](), reflect.TypeFor[ring](), reflect.TypeFor[runtime.RawExtension](),
	reflect.TypeFor[error](), reflect.TypeFor[func()](), reflect.TypeFor[complex64](),
}

func (m maker) typ(depth int) reflect.Type {
	if depth == 0 {
		return leaves[m.IntN(len(leaves))]
	}
	switch m.IntN(6) {
	case 0:
		return reflect.PointerTo(m.typ(depth - 1))
	case 1:
		return reflect.SliceOf(m.typ(depth - 1))
	case 2:
		return reflect.ArrayOf(m.IntN(4), m.typ(depth-1))
	case 3:
		if key := m.typ(m.IntN(depth)); key.Comparable() {
			return reflect.MapOf(key, m.typ(depth-1))
		}
		return reflect.MapOf(reflect.TypeFor[string](), m.typ(depth-1))
	default:
		fields := make([]reflect.StructField, m.IntN(5))
		for i := range fields {
			fields[i] = reflect.StructField{Name: fmt.Sprint("F", i), Type: m.typ(depth - 1)}
		}
		return reflect.StructOf(fields)
	}
}

func (m maker) fill(v reflect.Value, depth int) {
	if depth == 0 || m.IntN(8) == 0 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf([]metav1.Time{metav1.Unix(m.Int64N(1e10), 0), metav1.Unix(m.Int64N(1e10), m.Int64N(1e9)), {Time: time.Unix(m.Int64N(9), 0).UTC()}, {Time: time.Unix(m.Int64N(9), 0).In(time.FixedZone("", m.IntN(9)*900))}}[m.IntN(4)]))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse([]string{fmt.Sprint(m.IntN(3000), []string{"", "m", "Ki", "e3", "G"}[m.IntN(5)]), forms[m.IntN(len(forms))]}[m.IntN(2)])))
		return
	case reflect.TypeFor[any]():
		v.Set(reflect.ValueOf([]any{"a text to share", int64(m.IntN(9)), m.float(), true, []any{"a", nil}, map[string]any{"a": m.float()}, map[string]any{}, 1}[m.IntN(8)]))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString([]string{"", "a", "a text to share", fmt.Sprint("a text of many ", m.IntN(100))}[m.IntN(4)])
	case reflect.Int8, reflect.Int64, reflect.Int, reflect.Int32:
		v.SetInt(m.Int64() >> m.IntN(64))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(m.Uint64())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(m.float())
	case reflect.Complex64:
		v.SetComplex(1i)
	case reflect.Func:
		if m.IntN(4) == 0 {
			v.Set(reflect.ValueOf(func() {}))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), depth-1)
	case reflect.Slice:
		n := m.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n+m.IntN(2)))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			m.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range m.IntN(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			m.fill(key, depth-1)
			m.fill(value, depth-1)
			if key.Comparable() {
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				m.fill(v.Field(i), depth-1)
			}
		}
	}
}

func (m maker) float() float64 {
	return []float64{math.NaN(), math.Copysign(0, -1), 0, 1.5, math.Inf(1), m.Float64()}[m.IntN(6)]
}

// FuzzTypes packs values of random types. Each is unpacked as it was packed, or is
// refused.
func FuzzTypes(f *testing.F) {
	for seed := range uint64(150) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := maker{rand.New(rand.NewPCG(seed, 1))}
		typ := m.typ(1 + m.IntN(4))
		for range 5 {
			in := reflect.New(typ)
			m.fill(in.Elem(), 8)
			packs(t, in)
		}
	})
}
