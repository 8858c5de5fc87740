package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/overlay"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// world is one ConfigMap, and the informer that tells of it.
type world struct {
	cache.Informer
	toolscache.ResourceEventHandler
	object *corev1.ConfigMap
}

func (w *world) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	w.ResourceEventHandler = h
	w.object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", ResourceVersion: "1"}}
	w.object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	h.OnAdd(w.object, true)
	return nil, nil
}

func (w *world) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// write changes the object as a client does that is given ctx.
func (w *world) write(ctx context.Context, who, value string) {
	before := w.object
	w.object = before.DeepCopy()
	w.object.Data = map[string]string{"n": value}
	w.object.ResourceVersion = value
	w.object.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: who, Time: ptr.To(metav1.Now()), FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:n":{}}}`),
	}}
	overlay.Observe(ctx, w.object)
	w.OnUpdate(before, w.object)
}

// watch runs a controller over a world for a while: after every reconcile of the first hundred its
// reconciler and somebody else may write.
func watch(t *testing.T, options Options, own, other func(i int) bool, pace time.Duration) (name string) {
	t.Helper()
	var w world
	i := -1
	options.SkipNameValidation = ptr.To(true)
	options.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		i++
		time.Sleep(pace)
		if i < 100 && own(i) {
			w.write(ctx, "operator", fmt.Sprint("own-", i))
		}
		if i < 100 && other(i) {
			w.write(context.Background(), "somebody", fmt.Sprint("other-", i))
		}
		return reconcile.Result{}, nil
	})
	name = unique(t)
	c, err := NewUnmanaged(name, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(&source.Informer{Informer: &w, Handler: &handler.EnqueueRequestForObject{}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	time.Sleep(3 * time.Hour)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return name
}

func TestHotLoop(t *testing.T) {
	always, never := func(int) bool { return true }, func(int) bool { return false }
	for name, c := range map[string]struct {
		own, other func(i int) bool
		pace       time.Duration
		want       int
	}{
		"its own writes":       {own: always, other: never, want: 1},
		"slowly":               {own: always, other: never, pace: time.Second, want: 1},
		"too slow to matter":   {own: always, other: never, pace: time.Minute},
		"for so long":          {own: always, other: never, pace: 2900 * time.Millisecond, want: 1},
		"it settles":           {own: func(i int) bool { return i < 19 }, other: never},
		"it settles and again": {own: func(i int) bool { return i%10 != 0 }, other: func(i int) bool { return i%10 == 0 }},
		"somebody else writes": {own: never, other: always},
		"they take turns":      {own: always, other: func(i int) bool { return i%10 == 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var found []HotLoop
				controller := watch(t, Options{OnHotLoop: func(h HotLoop) { found = append(found, h) }}, c.own, c.other, c.pace)
				if n := testutil.ToFloat64(hotLoops.WithLabelValues(controller)); len(found) != c.want || int(n) != c.want {
					t.Fatalf("found %d, counted %v, want %d", len(found), n, c.want)
				}
				if c.want > 0 {
					text := found[0].Error()
					for _, part := range []string{controller, "default/c", " 20 times", "updated ConfigMap default/c at own-19 (data.n by operator)"} {
						if !strings.Contains(text, part) {
							t.Errorf("no %q in: %s", part, text)
						}
					}
				}
			})
		})
	}
}

func TestHotLoopIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, args string) {
			if strings.Contains(args, "Hot loop") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		watch(t, Options{Logger: logger}, func(int) bool { return true }, func(int) bool { return false }, 0)
		if len(lines) != 1 || !strings.Contains(lines[0], "(data.n by operator)") || strings.Contains(lines[0], `data="`) {
			t.Errorf("logged %q", lines)
		}
	})
}
