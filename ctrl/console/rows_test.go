package console

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// countRows returns how many rows the data of a page have.
func countRows(data any) (n int) {
	rows := []any{
		Controller{}, Priority{}, Queued{}, Reconcile{}, Read{}, Write{}, Line{}, WrittenBy{}, Condition{}, Event{}, Field{},
		Finalizer{}, Owned{}, CachedKind{}, Warning{}, Step{}, "",
	}
	var count func(v reflect.Value)
	count = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				if v.Type() == reflect.TypeFor[*Owned]() {
					n++
				}
				count(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				field := v.Type().Field(i).Name
				isText := v.Field(i).Type() == reflect.TypeFor[[]string]() && field != "PausedRequests"
				if field != "Causes" && field != "Changes" && field != "Via" && field != "Root" && !isText &&
					!(field == "Finalizers" && v.Type() == reflect.TypeFor[Owned]()) {
					count(v.Field(i))
				}
			}
		case reflect.Slice:
			if slices.ContainsFunc(rows, func(row any) bool { return reflect.TypeOf(row) == v.Type().Elem() }) {
				n += v.Len()
				if v.Type().Elem() == reflect.TypeFor[Step]() {
					n += v.Len() // of the graph and of the list
					return
				}
			}
			for i := range v.Len() {
				count(v.Index(i))
			}
		}
	}
	count(reflect.ValueOf(data))
	return n
}

// TestRows: no page has more than 200 rows, whatever there is to show.
func TestRows(t *testing.T) {
	s := open(t, shopOptions{})
	id := s.fillRecord(t)
	paths := map[string][]string{
		"":           {""},
		"controller": {"name=busy", "name=busy&limit=1000", "name=busy&limit=1000&offset=2000", "name=deep"},
		"key":        {"controller=deep&request=default/full", "controller=deep&request=default/full&limit=10000"},
		"reconcile":  {fmt.Sprint("id=", id)},
		"chain":      {fmt.Sprint("reconcile=", id)},
		"object":     {"kind=ConfigMap&name=default/full"},
		"owners":     {"", "namespace=default"},
		"caches":     {""},
		"warnings":   {""},
	}
	full := []string{"", "controller", "key", "reconcile", "chain", "object", "warnings"}
	for _, v := range views {
		if len(paths[v.path]) == 0 {
			t.Errorf("the page %q is not tested", v.path)
		}
		for _, query := range paths[v.path] {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "/console/"+v.path+"?"+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			data, err := v.data(s.console, r)
			if err != nil {
				t.Errorf("%s?%s: %v", v.path, query, err)
				continue
			}
			n := countRows(data)
			if n > maxRows || n < maxRows/2 && slices.Contains(full, v.path) && !strings.Contains(query, "deep") {
				t.Errorf("%s?%s has %d rows", v.path, query, n)
			}
			s.get(t, "/console/"+v.path+"?"+query) // the template knows the fields
		}
	}
}

// fillRecord records more of everything than a page shows. It returns a reconcile with reads, writes and lines.
func (s *shop) fillRecord(t *testing.T) (id uint64) {
	t.Helper()
	r := s.console.recorder
	busy := r.AddController(fakeControls{name: "busy", keys: 10_000, paused: 300})
	for i := range 300 {
		r.AddController(idleControls{fakeControls{name: fmt.Sprint("idle-", i)}})
		busy.NewWorker().Begin(types.NamespacedName{Name: fmt.Sprint(i)}, nil, evilCauses, 0, time.Now())
		r.Warn(config.Warning{Check: "x", Message: fmt.Sprint(i)})
	}
	full := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "full", Finalizers: manyFinalizers(300)}, Data: map[string]string{}}
	for i := range 300 {
		full.Data[fmt.Sprint("k", i)] = "v"
	}
	if err := s.client.Create(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	s.idle(t)
	w := r.AddController(fakeControls{name: "deep", kind: configMaps}).NewWorker()
	why := cause.Causes{List: []cause.Cause{{Kind: cause.Updated, Object: types.NamespacedName{Name: "x"}, ResourceVersion: "7"}}}
	for i := range 300 {
		run := w.Begin(types.NamespacedName{Namespace: "default", Name: "full"}, nil, why, 0, time.Now())
		logger := r.Logger(run, logr.Discard())
		logger.Info("a line")
		if i == 0 {
			id = run.ID
			ctx := context.WithValue(t.Context(), observe.RunKey{}, run)
			for range 300 {
				logger.Info("a line")
				_ = s.mgr.GetClient().Delete(ctx, full, client.Preconditions{UID: new(types.UID("of another one"))})
				_ = s.mgr.GetClient().Get(ctx, types.NamespacedName{Namespace: "default", Name: "full"}, &corev1.ConfigMap{})
			}
		}
		w.End(run, observe.Outcome{Result: "success"}, false)
	}
	return id
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		rows        int
		wants, want []int
	}{
		{10, []int{3, 4}, []int{3, 4}},
		{10, []int{3, 100, 100}, []int{3, 4, 3}},
		{0, []int{3, 4}, []int{0, 0}},
		{-1, []int{3}, []int{0}},
		{5, nil, []int{}},
	} {
		if got := share(c.rows, c.wants...); !slices.Equal(got, c.want) {
			t.Errorf("%d rows for %v: %v, want %v", c.rows, c.wants, got, c.want)
		}
	}
}
