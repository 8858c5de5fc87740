package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/memsize"
)

// controls is a controller with a name.
type controls struct {
	Controls
	name string
}

func (c controls) ControllerName() string { return c.name }

// fakeClient is a client that writes and reads nothing.
type fakeClient struct{ client.Client }

func (fakeClient) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}, nil
}

func (fakeClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	obj.SetResourceVersion("7")
	return nil
}

func (fakeClient) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New(strings.Repeat("e", 5000))
}

func (fakeClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// thing is an object of a custom resource, as a project has it: it cannot tell its encoded size.
type thing struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec map[string][]string
}

func (t *thing) DeepCopyObject() runtime.Object {
	out := &thing{TypeMeta: t.TypeMeta, ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: map[string][]string{}}
	for k, v := range t.Spec {
		out.Spec[k] = append([]string(nil), v...)
	}
	return out
}

func thingOf(n int) client.Object {
	t := &thing{Spec: map[string][]string{}}
	for i := range n {
		t.Spec[fmt.Sprint("a", i)] = []string{fmt.Sprint("b", i), fmt.Sprint("c", i)}
	}
	return t
}

func unstructuredOf(n int) client.Object {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprint("x", i), "value": int64(i)}
	}
	return &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "spec": list}}
}

// TestBytes records reconciles until the limit, whatever they write: the records take no more than they count for, and no more than
// the 12 MiB of the documentation, and a reconcile that runs takes a bounded part of that.
func TestBytes(t *testing.T) {
	long := strings.Repeat("x", 3000)
	selector := client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"a": long[:60], "b": long[:60]})}
	for name, c := range map[string]struct {
		objects []client.Object
		n       int // of each
		lines   int
	}{
		"small":              {[]client.Object{unstructuredOf(1), thingOf(1), &corev1.Pod{}}, 3, 3},
		"custom resources":   {[]client.Object{unstructuredOf(50), thingOf(100)}, 20, 3},
		"at the limit":       {[]client.Object{unstructuredOf(150), thingOf(300)}, 30, 3},
		"1 MB":               {[]client.Object{unstructuredOf(20_000), thingOf(10_000), &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 1<<20)}}}, 3, 3},
		"lines":              {nil, 0, 300},
		"reads and no write": {nil, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(0)
			w := r.AddController(controls{name: "c"}).NewWorker()
			writer := r.Client(fakeClient{}, client.Options{})
			for i := range 4000 {
				causes := cause.Causes{List: []cause.Cause{{Kind: cause.Updated, Object: types.NamespacedName{Name: fmt.Sprint("object-", i)}, Changed: fmt.Sprint(long[:200], i)}}}
				run := w.Begin(types.NamespacedName{Namespace: "default", Name: fmt.Sprint("object-", i)}, nil, causes, 0, time.Now())
				ctx := context.WithValue(t.Context(), RunKey{}, run)
				for range c.n {
					for _, obj := range c.objects {
						_ = writer.Update(ctx, obj)
					}
					_ = writer.Get(ctx, types.NamespacedName{Name: fmt.Sprint("other-", i)}, &thing{})
					_ = writer.List(ctx, &corev1.PodList{}, selector)
				}
				logger := r.Logger(run, logr.Discard())
				for range c.lines {
					logger.Info(long, "value", long)
				}
				if size := real(run); size > 2<<20 {
					t.Fatalf("a reconcile that runs takes %d bytes", size)
				}
				w.End(run, Outcome{Result: "error", Err: long + fmt.Sprint(i)}, true)
				if len(r.controllers[0].earlier) == 100 {
					break
				}
			}
			total := 0
			for _, c := range r.controllers {
				for _, run := range c.runs {
					total += real(run)
				}
				total += memsize.Of(c.earlier, math.MaxInt)
			}
			t.Logf("%d reconciles take %d bytes, and count for %d", len(r.Runs()), total, r.Size())
			if r.Size() > 12<<20 || DefaultLimit != 12<<20 {
				t.Errorf("the records count for %d bytes", r.Size())
			}
			if int64(total) > r.Size()*21/20 {
				t.Errorf("the records take %d bytes, and count for %d", total, r.Size())
			}
			if r.Size() > int64(2*total) {
				t.Errorf("the records count for %d bytes, but take only %d", r.Size(), total)
			}
		})
	}
}

// real returns how many bytes a record takes, without the types, which all records share.
func real(run *Run) int {
	n := memsize.Of(run, math.MaxInt)
	for _, w := range run.writes {
		n -= memsize.Of(w.Type, math.MaxInt)
	}
	for _, r := range run.reads {
		n -= memsize.Of(r.Type, math.MaxInt)
	}
	return n
}

// TestAfterTheEnd: a goroutine that outlives its reconcile adds nothing to the record.
func TestAfterTheEnd(t *testing.T) {
	r := New(0)
	w := r.AddController(controls{name: "c"}).NewWorker()
	run := w.Begin(types.NamespacedName{Name: "x"}, nil, cause.Causes{}, 0, time.Now())
	w.End(run, Outcome{Result: "success"}, false)
	ctx := context.WithValue(t.Context(), RunKey{}, run)
	writer := r.Client(fakeClient{}, client.Options{})
	_ = writer.Update(ctx, thingOf(1))
	_ = writer.Get(ctx, types.NamespacedName{}, &thing{})
	r.Logger(run, logr.Discard()).Info("late")
	if c := run.Copy(); len(c.Reads)+len(c.Writes)+len(c.Lines) != 0 || c.Dropped != [3]int{1, 1, 1} {
		t.Errorf("the record is %+v", c)
	}
}
