package builtin

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/internal/testlevel"
)

// described gives access, by reflection, to a [kinds.Of] of any Go type.
type described struct{ of reflect.Value }

func describe(k kinds.Kind) described { return described{reflect.ValueOf(k)} }

// stored returns the kinds that are stored.
func stored() []kinds.Kind {
	return slices.DeleteFunc(All(Options{}), func(k kinds.Kind) bool { return !reflect.ValueOf(k).FieldByName("List").IsValid() })
}

func (d described) plural() string { return d.of.FieldByName("Plural").String() }

// blank returns an empty object.
func (d described) blank() runtime.Object {
	return reflect.New(d.of.FieldByName("Type").Type().Elem()).Interface().(runtime.Object)
}

// call calls one of the functions of the kind, and returns its results; none if the kind has none.
// A nil argument is the zero value.
func (d described) call(name string, args ...any) []reflect.Value {
	function := d.of.FieldByName(name)
	if function.IsNil() {
		return nil
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		if in[i] = reflect.ValueOf(arg); arg == nil {
			in[i] = reflect.Zero(function.Type().In(i))
		}
	}
	return function.Call(in)
}

// errors calls a function that returns a field.ErrorList.
func (d described) errors(name string, args ...any) field.ErrorList {
	results := d.call(name, args...)
	if len(results) == 0 {
		return nil
	}
	return results[0].Interface().(field.ErrorList)
}

// run calls all functions of a kind on an object.
func (d described) run(t testing.TB, obj, old runtime.Object) {
	t.Helper()
	d.call("Default", old)
	d.call("Default", obj)
	once := obj.DeepCopyObject()
	d.call("Default", obj)
	if !apiequality.Semantic.DeepEqual(once, obj) {
		t.Errorf("%s: the defaults of a defaulted object differ (-once +twice):\n%s", d.plural(), cmp.Diff(once, obj))
	}
	untouched := obj.DeepCopyObject()
	d.errors("Validate", obj)
	d.errors("ValidateUpdate", obj, old)
	for _, err := range d.errors("ValidateUpdate", obj, obj.DeepCopyObject()) {
		t.Logf("%s: update without a change: %v", d.plural(), err)
	}
	d.errors("ValidateStatus", obj, old)
	d.call("Warnings", obj, nil)
	d.call("Warnings", obj, old)
	if results := d.call("Row", obj); len(results) > 0 {
		if n, columns := results[0].Len(), d.of.FieldByName("Columns").Len(); n != columns {
			t.Errorf("%s: %d cells for %d columns", d.plural(), n, columns)
		}
	}
	if fields := d.call("Fields", obj); len(fields) > 0 && fields[0].Len() != d.call("Fields", d.blank())[0].Len() {
		t.Errorf("%s: the selectable fields differ between objects", d.plural())
	}
	d.call("GracePeriod", obj)
	if scale := d.of.FieldByName("Scale"); !scale.IsNil() {
		for _, name := range []string{"Replicas", "StatusReplicas", "Selector"} {
			scale.Elem().FieldByName(name).Call([]reflect.Value{reflect.ValueOf(obj)})
		}
	}
	if !apiequality.Semantic.DeepEqual(untouched, obj) {
		t.Errorf("%s: a function that must not modify the object has done so:\n%s", d.plural(), cmp.Diff(untouched, obj))
	}
	d.call("Prepare", context.Background(), obj.DeepCopyObject(), nil)
	d.call("Prepare", context.Background(), obj.DeepCopyObject(), old)
	d.call("PrepareStatus", context.Background(), obj, old)
}

func TestEmptyObjects(t *testing.T) {
	for _, k := range stored() {
		e := describe(k)
		e.run(t, e.blank(), e.blank())
	}
}

// FuzzEveryKind fills objects of all kinds from the fuzzer's bytes. No function may panic, and
// defaults must be idempotent.
func FuzzEveryKind(f *testing.F) {
	all := stored()
	for i := range all {
		f.Add(uint8(i), int64(i), []byte("a"))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed int64, data []byte) {
		e := describe(all[int(which)%len(all)])
		obj, old := e.blank(), e.blank()
		filler := randfill.NewFromGoFuzz(append(data, byte(seed), byte(seed>>8), byte(seed>>16))).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(fills...)
		filler.Fill(obj)
		filler.Fill(old)
		e.run(t, obj, old)
	})
}

// fills set fields of types that do not accept arbitrary values.
var fills = []any{
	func(s *intstr.IntOrString, c randfill.Continue) {
		if c.Bool() {
			*s = intstr.FromInt32(c.Int31())
		} else {
			*s = intstr.FromString(c.String(0))
		}
	},
	func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
	func(t *metav1.MicroTime, c randfill.Continue) {
		*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1<<32), 0).Time)
	},
	func(*metav1.FieldsV1, randfill.Continue) {},
	func(*runtime.RawExtension, randfill.Continue) {},
}

func TestRandomObjects(t *testing.T) {
	rounds := testlevel.Rounds(50, 200)
	for _, k := range stored() {
		e := describe(k)
		for seed := range rounds {
			filler := randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(0, 2).MaxDepth(14).Funcs(fills...)
			obj, old := e.blank(), e.blank()
			filler.Fill(obj)
			filler.Fill(old)
			e.run(t, obj, old)
		}
	}
}

func TestEveryKindIsRegisteredOnce(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, k := range stored() {
		e := describe(k)
		typ := reflect.TypeOf(e.blank())
		if seen[typ] {
			t.Errorf("%s is described twice", typ)
		}
		seen[typ] = true
		if _, _, err := Scheme().ObjectKinds(e.blank()); err != nil {
			t.Error(err)
		}
	}
}

const simplePod = `
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: default, labels: {app: web}}
spec:
  containers:
  - name: web
    image: nginx:1.27
    ports: [{name: http, containerPort: 80}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
`

func BenchmarkDefaultPod(b *testing.B) {
	pod := read(b, simplePod).(*corev1.Pod)
	bare := pod.DeepCopy()
	b.ReportAllocs()
	for b.Loop() {
		*bare = corev1.Pod{}
		bare.Spec.Containers = pod.Spec.Containers
		core.DefaultPod(bare)
	}
}

func BenchmarkValidatePod(b *testing.B) {
	pod := read(b, simplePod).(*corev1.Pod)
	b.ReportAllocs()
	for b.Loop() {
		if errs := core.ValidatePod(pod, nil); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

// valueOf is [reflect.ValueOf] for tests of descriptions.
func valueOf(v any) reflect.Value { return reflect.ValueOf(v) }
