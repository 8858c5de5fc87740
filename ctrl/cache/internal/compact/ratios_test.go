package compact

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/randfill"
)

var ratios = flag.Bool("ratios", false, "measure unpacking against deep copies, for every slice and map type of some API groups")

// plainValues has slices and maps of values that are copied as a block.
type plainValues struct {
	Points     []struct{ X, Y int64 }
	Numbers    []int64
	Counts     map[string]int64
	Quantities map[string]resource.Quantity
	Flags      []bool
	Text       map[string]string
}

// DeepCopy is the method that deepcopy-gen would generate.
func (in *plainValues) DeepCopy() *plainValues {
	out := *in
	if in.Points != nil {
		out.Points = make([]struct{ X, Y int64 }, len(in.Points))
		copy(out.Points, in.Points)
	}
	if in.Numbers != nil {
		out.Numbers = make([]int64, len(in.Numbers))
		copy(out.Numbers, in.Numbers)
	}
	if in.Counts != nil {
		out.Counts = make(map[string]int64, len(in.Counts))
		for key, value := range in.Counts {
			out.Counts[key] = value
		}
	}
	if in.Quantities != nil {
		out.Quantities = make(map[string]resource.Quantity, len(in.Quantities))
		for key, value := range in.Quantities {
			out.Quantities[key] = value.DeepCopy()
		}
	}
	if in.Flags != nil {
		out.Flags = make([]bool, len(in.Flags))
		copy(out.Flags, in.Flags)
	}
	if in.Text != nil {
		out.Text = make(map[string]string, len(in.Text))
		for key, value := range in.Text {
			out.Text[key] = value
		}
	}
	return &out
}

// long is a struct with a field that is a slice or a map, which is to be long.
type long struct {
	in    reflect.Type
	field reflect.StructField
}

func (l long) String() string { return fmt.Sprintf("%v.%s %v", l.in, l.field.Name, l.field.Type) }

// longs returns the slices and maps of different types that kinds of some API groups have, each in a
// struct that has a DeepCopy.
func longs() (all []long) {
	seen, types := map[reflect.Type]bool{}, map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			_, copies := reflect.PointerTo(t).MethodByName("DeepCopy")
			for i := range t.NumField() {
				f := t.Field(i)
				if !f.IsExported() {
					continue
				}
				flat := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Uint8
				if k := f.Type.Kind(); copies && !flat && !types[f.Type] && (k == reflect.Slice || k == reflect.Map) {
					types[f.Type] = true
					all = append(all, long{t, f})
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[plainValues]())
	for _, t := range []reflect.Type{
		reflect.TypeFor[appsv1.Deployment](), reflect.TypeFor[appsv1.StatefulSet](), reflect.TypeFor[appsv1.DaemonSet](), reflect.TypeFor[appsv1.ReplicaSet](), reflect.TypeFor[appsv1.ControllerRevision](),
		reflect.TypeFor[batchv1.Job](), reflect.TypeFor[batchv1.CronJob](), reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](),
	} {
		walk(t)
	}
	for _, t := range kinds() {
		if t.PkgPath() == reflect.TypeFor[corev1.Pod]().PkgPath() {
			walk(t)
		}
	}
	return all
}

// fill returns a struct with so many elements in its field, filled at random.
func (l long) fill(elements int) reflect.Value {
	v := reflect.New(l.in)
	f := filler(3).MaxDepth(4).NumElements(0, 2).Funcs(
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			*s = apiextensionsv1.JSONSchemaProps{Description: c.String(0), Type: "string", MaxLength: new(int64(7)), Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}}}
		},
		func(s *string, c randfill.Continue) { *s = fmt.Sprintf("a text %d", c.Intn(1e6)) },
	)
	field := v.Elem().FieldByIndex(l.field.Index)
	field.Set(reflect.Zero(field.Type()))
	if field.Kind() == reflect.Slice {
		field.Set(reflect.MakeSlice(field.Type(), elements, elements))
		for i := range elements {
			f.Fill(field.Index(i).Addr().Interface())
		}
		return v
	}
	field.Set(reflect.MakeMap(field.Type()))
	for i := range elements {
		key, elem := reflect.New(field.Type().Key()).Elem(), reflect.New(field.Type().Elem())
		key.SetString(fmt.Sprint("key-", i))
		f.Fill(elem.Interface())
		field.SetMapIndex(key, elem.Elem())
	}
	return v
}

const longLength = 3000

// TestLong packs long slices and maps of every type. They are unpacked as they were, and a change of
// an unpacked one changes nothing else.
func TestLong(t *testing.T) {
	for _, l := range longs() {
		in := l.fill(2 * minKept)
		p, typ := NewPacker(), TypeOf(l.in)
		for n := range often { // in the end it is interned
			v, ok := p.Pack(nil, []string{fmt.Sprint(n)}, typ, in.Interface())
			if !ok {
				t.Errorf("%v is not packed", l)
				break
			}
			for range 1 + n/(often-2) {
				out := reflect.New(l.in)
				unpackInto(p.View(), v, out)
				if !identical(in.Elem(), out.Elem()) {
					t.Fatalf("%v is unpacked as something else", l)
				}
				mutate(out.Elem())
			}
		}
	}
}

// TestVeryLong expects that what takes longer to unpack than to copy is kept as a Go value if it is a
// map, and else that the value is not packed.
func TestVeryLong(t *testing.T) {
	for _, tt := range []struct {
		field          string
		elements       int
		packed, isKept bool
	}{
		{"Counts", minKept - 1, true, false}, {"Counts", longLength, true, true}, {"Text", longLength, true, true},
		{"Numbers", minKept - 1, true, false}, {"Numbers", minDecoded - 1, true, false}, {"Numbers", minDecoded, false, false},
		{"Points", longLength, false, false}, {"Flags", longLength, false, false},
	} {
		in := reflect.TypeFor[plainValues]()
		field, _ := in.FieldByName(tt.field)
		p := NewPacker()
		v, ok := p.Pack(nil, nil, TypeOf(in), long{in, field}.fill(tt.elements).Interface())
		if ok != tt.packed {
			t.Errorf("%s of %d elements: packed: %v, want %v", tt.field, tt.elements, ok, tt.packed)
		}
		if got := v.apart != nil && v.apart.kept != nil; got != tt.isKept {
			t.Errorf("%s of %d elements: kept: %v, want %v", tt.field, tt.elements, got, tt.isKept)
		}
	}
}

// TestSlow expects that a value is slow if it consists of a long slice or map, for the most part, that is
// copied in less time than it is unpacked.
func TestSlow(t *testing.T) {
	tolerations := func(elements int) *corev1.PodSpec {
		spec := &corev1.PodSpec{}
		for i := range elements {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("key-", i), Value: fmt.Sprint("value-", i)})
		}
		if elements > 0 {
			spec.Tolerations[0].TolerationSeconds = new(int64(7)) // not all in one variable
		}
		return spec
	}
	beside := tolerations(minKept)
	for i := range minKept - 1 {
		beside.Containers = append(beside.Containers, corev1.Container{Name: fmt.Sprint(i), Command: []string{"run", fmt.Sprint(-i)},
			LivenessProbe: &corev1.Probe{PeriodSeconds: int32(i), TimeoutSeconds: int32(i), FailureThreshold: int32(i)}})
	}
	block := func(spec *corev1.PodSpec) *corev1.PodSpec { // the tolerations are one variable
		spec.Tolerations[0].TolerationSeconds = nil
		return spec
	}
	finalizers := &metav1.ObjectMeta{}
	for i := range minKept {
		finalizers.Finalizers = append(finalizers.Finalizers, fmt.Sprint("example.com/", i))
	}
	named := pod(1).ObjectMeta
	named.Finalizers = finalizers.Finalizers
	rest := beside.DeepCopy()
	rest.Tolerations = nil
	items := make([]any, 2*minKept)
	for i := range items {
		items[i] = map[string]any{"name": fmt.Sprint("name-", i), "value": int64(i)}
	}
	for _, tt := range []struct {
		name string
		in   any
		slow bool
	}{
		{"few", tolerations(minKept - 1), false},
		{"many", tolerations(minKept), true},
		{"as many as are packed", tolerations(minDecoded - 1), true},
		{"much beside", beside, false},
		{"a block of few", block(tolerations(minKept - 1)), false},
		{"a block", block(tolerations(minKept)), true},
		{"a block of strings", finalizers, true},
		{"a block of strings beside other metadata", &named, true},
		{"a block of strings in much else", &corev1.Pod{ObjectMeta: named, Spec: *rest}, false},
		{"unstructured", &unstructured.Unstructured{Object: map[string]any{"items": items}}, false},
	} {
		v, ok := NewPacker().Pack(nil, nil, TypeOf(reflect.TypeOf(tt.in).Elem()), tt.in)
		if !ok || v.Slow() != tt.slow {
			t.Errorf("%s: packed %v, slow %v", tt.name, ok, v.Slow())
		}
		out := reflect.New(reflect.TypeOf(tt.in).Elem())
		unpackInto(&View{}, v, out)
		if !identical(reflect.ValueOf(tt.in).Elem(), out.Elem()) {
			t.Errorf("%s: unpacked as something else", tt.name)
		}
	}
}

// TestRatios measures the claim of the documentation, that an object is read in less time than it is
// copied, for the most unfavorable objects.
func TestRatios(t *testing.T) {
	if !*ratios {
		t.Skip("it takes minutes, and measures time; run it with -ratios")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ratio\tunpack\tcopy\tpacked\t\ttype")
	worst := 0.0
	measure := func(l long, length int) {
		// An object has metadata beside its content.
		whole := reflect.StructOf([]reflect.StructField{{Name: "Meta", Type: reflect.TypeFor[metav1.ObjectMeta]()}, {Name: "Content", Type: l.in}})
		content := l.fill(length)
		in := reflect.New(whole)
		in.Elem().Field(0).Set(reflect.ValueOf(pod(1).ObjectMeta))
		in.Elem().Field(1).Set(content.Elem())
		p, typ := NewPacker(), TypeOf(whole)
		v, ok := p.Pack(nil, nil, typ, in.Interface())
		if !ok {
			fmt.Fprintf(w, "1.00\t\t\t\tdecoded\t%d × %v\n", length, l)
			return
		}
		view, meta, deepCopy := p.View(), in.Elem().Field(0).Addr().Interface().(*metav1.ObjectMeta), content.MethodByName("DeepCopy")
		if deepCopy.Call(nil)[0].Elem().FieldByIndex(l.field.Index).Pointer() == content.Elem().FieldByIndex(l.field.Index).Pointer() {
			return // JSONSchemaProps does not copy everything
		}
		best := fastest([]func(){
			func() {
				for range longLength / length {
					unpackInto(view, v, reflect.New(whole))
				}
			},
			func() {
				for range longLength / length {
					meta.DeepCopy()
					deepCopy.Call(nil)
				}
			},
		})
		ratio := float64(best[0]) / float64(best[1])
		kept := ""
		switch {
		case v.Slow(): // The store reads a copy of a Go value.
			ratio, kept = 1, "slow"
		case v.apart != nil && v.apart.kept != nil:
			kept = "kept"
		}
		worst = max(worst, ratio)
		fmt.Fprintf(w, "%.2f\t%v\t%v\t%d\t%s\t%d × %v\n", ratio, best[0], best[1], v.Size(), kept, length, l)
	}
	for _, l := range longs() {
		for _, length := range []int{minKept / 8, minKept - 1, minKept, minDecoded - 1, longLength} {
			measure(l, length)
		}
	}
	w.Flush()
	lines := strings.SplitAfter(table.String(), "\n")
	slices.SortStableFunc(lines[1:len(lines)-1], func(a, b string) int { return strings.Compare(b[:7], a[:7]) })
	t.Logf("worst %.2f\n%s", worst, strings.Join(lines, ""))
}

// fastest returns the least time that each function takes. They run in turns.
func fastest(sides []func()) []time.Duration {
	best := make([]time.Duration, len(sides))
	for range 10 {
		for _, i := range rand.Perm(len(sides)) {
			runtime.GC()
			for range 3 {
				start := time.Now()
				sides[i]()
				if took := time.Since(start); best[i] == 0 || took < best[i] {
					best[i] = took
				}
			}
		}
	}
	return best
}
