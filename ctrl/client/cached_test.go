package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
)

// notebook is a cache that notes what it is told.
type notebook struct {
	notes []string
}

var errFromCache = errors.New("read from the cache")

func (n *notebook) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errFromCache
}

func (n *notebook) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errFromCache
}

func (n *notebook) Wrote(_ context.Context, obj client.Object) {
	n.notes = append(n.notes, "wrote "+obj.GetName()+"@"+obj.GetResourceVersion())
}

func (n *notebook) Deleted(_ context.Context, obj client.Object) {
	n.notes = append(n.notes, "deleted "+obj.GetName()+" "+string(obj.GetUID()))
}

func cachedIn(n client.Reader, change ...func(*client.CacheOptions)) func(*client.Options) {
	return func(o *client.Options) {
		o.Cache = &client.CacheOptions{Reader: n}
		for _, c := range change {
			c(o.Cache)
		}
	}
}

func TestReadsFromCache(t *testing.T) {
	ctx := context.Background()
	unstructuredPods := &unstructured.UnstructuredList{}
	unstructuredPods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	tests := []struct {
		name   string
		change func(*client.CacheOptions)
		read   func(c client.Client) error
		cached bool
	}{
		{"typed", nil, func(c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})
		}, true},
		{"list", nil, func(c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, true},
		{"metadata", nil, func(c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, podMetadata("", ""))
		}, true},
		{"unstructured", nil, func(c client.Client) error { return c.List(ctx, unstructuredPods.DeepCopy()) }, false},
		{"unstructured if asked for", func(o *client.CacheOptions) { o.Unstructured = true }, func(c client.Client) error { return c.List(ctx, unstructuredPods.DeepCopy()) }, true},
		{"disabled", func(o *client.CacheOptions) { o.DisableFor = []client.Object{&corev1.Pod{}} }, func(c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, false},
		{"another is disabled", func(o *client.CacheOptions) { o.DisableFor = []client.Object{&corev1.Secret{}} }, func(c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := say(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{}})
			var change []func(*client.CacheOptions)
			if tt.change != nil {
				change = append(change, tt.change)
			}
			c := newClient(t, s, cachedIn(&notebook{}, change...))
			err := tt.read(c)
			if cached := errors.Is(err, errFromCache); cached != tt.cached || (cached == (len(s.seen) > 0)) {
				t.Errorf("error %v, %d requests", err, len(s.seen))
			}
		})
	}
}

// TestCacheIsTold checks that the cache hears of every write, with the server's
// answer, and of nothing that was not written.
func TestCacheIsTold(t *testing.T) {
	ctx := context.Background()
	object := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod("a", "x")
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		p.ResourceVersion, p.UID = "5", "u"
		if change != nil {
			change(p)
		}
		return p
	}
	going := object(func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(30))
	})
	finalized := object(func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(0))
	})
	gone := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success", Details: &metav1.StatusDetails{UID: "u"}}
	tests := []struct {
		name   string
		write  func(c client.Client) error
		answer any
		want   []string
	}{
		{"create", func(c client.Client) error { return c.Create(ctx, pod("a", "x")) }, object(nil), []string{"wrote x@5"}},
		{"update", func(c client.Client) error { return c.Update(ctx, pod("a", "x")) }, object(nil), []string{"wrote x@5"}},
		{"patch", func(c client.Client) error { return c.Patch(ctx, pod("a", "x"), client.Merge) }, object(nil), []string{"wrote x@5"}},
		{"patch metadata", func(c client.Client) error { return c.Patch(ctx, podMetadata("a", "x"), client.Merge) }, object(nil), []string{"wrote x@5"}},
		{"apply", func(c client.Client) error { return c.Apply(ctx, corev1ac.Pod("x", "a")) }, object(nil), []string{"wrote x@5"}},
		{"status", func(c client.Client) error { return c.Status().Update(ctx, pod("a", "x")) }, object(nil), []string{"wrote x@5"}},
		{"status apply", func(c client.Client) error { return c.Status().Apply(ctx, corev1ac.Pod("x", "a")) }, object(nil), []string{"wrote x@5"}},
		{"last finalizer removed", func(c client.Client) error { return c.Update(ctx, pod("a", "x")) }, finalized, []string{"deleted x u"}},
		{"delete", func(c client.Client) error { return c.Delete(ctx, pod("a", "x")) }, gone, []string{"deleted x u"}},
		{"delete unstructured", func(c client.Client) error { return c.Delete(ctx, widget("a", "x")) }, gone, []string{"deleted x u"}},
		{"delete in time", func(c client.Client) error { return c.Delete(ctx, pod("a", "x")) }, going, []string{"wrote x@5"}},
		{"delete at once", func(c client.Client) error { return c.Delete(ctx, pod("a", "x")) }, object(nil), []string{"deleted x u"}},

		{"dry run", func(c client.Client) error { return c.Create(ctx, pod("a", "x"), client.DryRunAll) }, object(nil), nil},
		{"dry run delete", func(c client.Client) error { return c.Delete(ctx, pod("a", "x"), client.DryRunAll) }, gone, nil},
		{"disabled", func(c client.Client) error {
			return c.Apply(ctx, corev1ac.Pod("x", "a"), client.DisableReadYourWritesConsistency)
		}, object(nil), nil},
		{"another body", func(c client.Client) error {
			return c.SubResource("binding").Update(ctx, pod("a", "x"), client.WithSubResourceBody(&corev1.Binding{}))
		}, map[string]any{"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": "x"}}, nil},
		{"refused", func(c client.Client) error { _ = c.Create(ctx, pod("a", "x")); return nil }, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := &notebook{}
			s := say(http.StatusOK, tt.answer)
			if tt.answer == nil {
				s = say(http.StatusForbidden, gone)
			}
			if err := tt.write(newClient(t, s, cachedIn(n))); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(n.notes, tt.want) {
				t.Errorf("told %q, want %q", n.notes, tt.want)
			}
		})
	}
}

func TestConsistencyCanBeOff(t *testing.T) {
	ctx := context.Background()
	n := &notebook{}
	c := newClient(t, podServer(), cachedIn(n, func(o *client.CacheOptions) { o.EnableReadYourWritesConsistency = new(false) }))
	if err := c.Create(ctx, pod("a", "x")); err != nil || len(n.notes) != 0 {
		t.Errorf("error %v, told %v", err, n.notes)
	}

	deaf := struct{ client.Reader }{n}
	o := client.Options{Mapper: mapper()}
	cachedIn(deaf, func(o *client.CacheOptions) { o.EnableReadYourWritesConsistency = new(true) })(&o)
	if _, err := client.New(podServer().config(), o); err == nil {
		t.Error("a cache that cannot be told was accepted")
	}
}
