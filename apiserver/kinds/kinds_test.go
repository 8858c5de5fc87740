package kinds

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// exercise is everything that can be done to an object of a kind without a server.
type exercise interface {
	kind() string
	blank() runtime.Object
	run(t testing.TB, obj, old runtime.Object)
}

func (k Of[T]) kind() string          { return k.Plural }
func (k Of[T]) blank() runtime.Object { return newOf(k.Type)() }

func (k Of[T]) run(t testing.TB, obj, old runtime.Object) {
	o, was := obj.(T), old.(T)
	if k.Default != nil {
		k.Default(was)
		k.Default(o)
		once := o.DeepCopyObject()
		k.Default(o)
		if !apiequality.Semantic.DeepEqual(once, runtime.Object(o)) {
			t.Errorf("%s: the defaults of a defaulted object differ (-once +twice):\n%s", k.Plural, cmp.Diff(once, runtime.Object(o)))
		}
	}
	var none T
	untouched := o.DeepCopyObject()
	if k.Validate != nil {
		k.Validate(o)
	}
	if k.ValidateUpdate != nil {
		k.ValidateUpdate(o, was)
		for _, err := range k.ValidateUpdate(o, o.DeepCopyObject().(T)) {
			t.Logf("%s: update without a change: %v", k.Plural, err)
		}
	}
	if k.ValidateStatus != nil {
		k.ValidateStatus(o, was)
	}
	k.warnings(o, none)
	k.warnings(o, was)
	if k.Row != nil {
		if n := len(k.Row(o)); n != len(k.Columns) {
			t.Errorf("%s: %d cells for %d columns", k.Plural, n, len(k.Columns))
		}
	}
	if k.Fields != nil && len(k.Fields(o)) != len(k.Fields(k.Type)) {
		t.Errorf("%s: the selectable fields differ between objects", k.Plural)
	}
	if k.GracePeriod != nil {
		k.GracePeriod(o)
	}
	if k.Scale != nil {
		k.Scale.Replicas(o)
		k.Scale.StatusReplicas(o)
		k.Scale.Selector(o)
	}
	if !apiequality.Semantic.DeepEqual(untouched, runtime.Object(o)) {
		t.Errorf("%s: looking at an object changed it:\n%s", k.Plural, cmp.Diff(untouched, runtime.Object(o)))
	}
	if k.Prepare != nil {
		k.Prepare(context.Background(), o.DeepCopyObject().(T), none)
		k.Prepare(context.Background(), o.DeepCopyObject().(T), was)
	}
	if k.PrepareStatus != nil {
		k.PrepareStatus(context.Background(), o, was)
	}
}

func TestEveryKindBearsAnEmptyObject(t *testing.T) {
	for _, k := range All() {
		e := k.(exercise)
		e.run(t, e.blank(), e.blank())
	}
}

// FuzzEveryKind fills objects of all kinds from the fuzzer's bytes: no rule may panic, and defaults
// must be idempotent.
func FuzzEveryKind(f *testing.F) {
	kinds := All()
	for i := range kinds {
		f.Add(uint8(i), int64(i), []byte("a"))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed int64, data []byte) {
		e := kinds[int(which)%len(kinds)].(exercise)
		obj, old := e.blank(), e.blank()
		filler := randfill.NewFromGoFuzz(append(data, byte(seed), byte(seed>>8), byte(seed>>16))).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(fills...)
		filler.Fill(obj)
		filler.Fill(old)
		e.run(t, obj, old)
	})
}

// fills are for types whose fields cannot be set freely.
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
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	for _, k := range All() {
		e := k.(exercise)
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
	for _, k := range All() {
		e := k.(exercise)
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
		defaultPod(bare)
	}
}

func BenchmarkValidatePod(b *testing.B) {
	pod := read(b, simplePod).(*corev1.Pod)
	b.ReportAllocs()
	for b.Loop() {
		if errs := validatePod(pod); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
