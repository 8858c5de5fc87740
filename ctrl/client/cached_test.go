package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
)

// recorder is a cache that records its notifications.
type recorder struct {
	calls []string
}

var errFromCache = errors.New("read from the cache")

func (n *recorder) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errFromCache
}

func (n *recorder) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errFromCache
}

func (n *recorder) Wrote(_ context.Context, obj client.Object) {
	n.calls = append(n.calls, "wrote "+obj.GetName()+"@"+obj.GetResourceVersion())
}

func (n *recorder) Invalidate(_ context.Context, obj client.Object) {
	n.calls = append(n.calls, "invalidate "+obj.GetName()+"@"+obj.GetResourceVersion())
}

func (n *recorder) Deleting(_ context.Context, obj client.Object) {
	n.calls = append(n.calls, "deleting "+obj.GetName()+"@"+obj.GetResourceVersion()+" "+string(obj.GetUID()))
}

func (n *recorder) Deleted(_ context.Context, obj client.Object) {
	n.calls = append(n.calls, "deleted "+obj.GetName()+" "+string(obj.GetUID()))
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
		{"unstructured if enabled", func(o *client.CacheOptions) { o.Unstructured = true }, func(c client.Client) error { return c.List(ctx, unstructuredPods.DeepCopy()) }, true},
		{"disabled", func(o *client.CacheOptions) { o.DisableFor = []client.Object{&corev1.Pod{}} }, func(c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, false},
		{"another is disabled", func(o *client.CacheOptions) { o.DisableFor = []client.Object{&corev1.Secret{}} }, func(c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := responding(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{}})
			var change []func(*client.CacheOptions)
			if tt.change != nil {
				change = append(change, tt.change)
			}
			c := newClient(t, s, cachedIn(&recorder{}, change...))
			err := tt.read(c)
			n := len(s.Requests())
			if cached := errors.Is(err, errFromCache); cached != tt.cached || (cached == (n > 0)) {
				t.Errorf("error %v, %d requests", err, n)
			}
		})
	}
}

// TestCacheIsNotified checks that the cache is notified of every write, with the server's
// response, and of nothing else.
func TestCacheIsNotified(t *testing.T) {
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
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{
		*object(nil), *object(func(p *corev1.Pod) { p.Name, p.UID, p.ResourceVersion = "y", "v", "7" }),
	}}
	going := object(func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(30))
	})
	finalized := object(func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(0))
	})
	scale := &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "6"},
	}
	unstructuredPod := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		u.SetNamespace("a")
		u.SetName("x")
		return u
	}
	status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"}
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

		// Responses that do not contain the object.
		{"scale update", func(c client.Client) error {
			return c.SubResource("scale").Update(ctx, pod("a", "x"), client.WithSubResourceBody(&autoscalingv1.Scale{}))
		}, scale, []string{"invalidate x@6"}},
		{"scale patch", func(c client.Client) error { return c.SubResource("scale").Patch(ctx, pod("a", "x"), client.Merge) }, scale, []string{"invalidate x@6"}},
		{"unstructured scale patch", func(c client.Client) error {
			return c.SubResource("scale").Patch(ctx, unstructuredPod(), client.Merge)
		}, scale, []string{"invalidate x@6"}},
		{"metadata scale patch", func(c client.Client) error {
			return c.SubResource("scale").Patch(ctx, podMetadata("a", "x"), client.Merge)
		}, metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: scale.ObjectMeta,
		}, []string{"invalidate x@6"}},
		{"scale apply", func(c client.Client) error { return c.SubResource("scale").Apply(ctx, corev1ac.Pod("x", "a")) }, scale, []string{"invalidate x@6"}},
		{"eviction", func(c client.Client) error {
			return c.SubResource("eviction").Create(ctx, pod("a", "x"), &policyv1.Eviction{})
		}, status, []string{"invalidate x@"}},
		{"unstructured eviction", func(c client.Client) error {
			u := unstructuredPod()
			u.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
			return c.SubResource("eviction").Create(ctx, unstructuredPod(), u)
		}, status, []string{"invalidate x@"}},
		{"token", func(c client.Client) error {
			return c.SubResource("token").Create(ctx, pod("a", "x"), &authenticationv1.TokenRequest{})
		}, authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}}, nil},
		{"status for an update", func(c client.Client) error { return c.Update(ctx, object(nil)) }, status, []string{"invalidate x@"}},
		{"status for an unstructured update", func(c client.Client) error {
			u := unstructuredPod()
			u.SetResourceVersion("5")
			return c.Update(ctx, u)
		}, status, []string{"invalidate x@"}},

		// Deletions of objects with an unknown UID.
		{"delete, no UID", func(c client.Client) error { return c.Delete(ctx, object(nil)) }, status, []string{"deleting x@ "}},
		{"delete of a UID", func(c client.Client) error {
			return c.Delete(ctx, object(nil), client.Preconditions{UID: new(types.UID("u"))})
		}, status, []string{"deleting x@5 u"}},
		{"delete another one", func(c client.Client) error {
			return c.Delete(ctx, object(func(p *corev1.Pod) { p.UID = "older" }))
		}, gone, []string{"deleted x u"}},
		{"delete, another kind", func(c client.Client) error { return c.Delete(ctx, pod("a", "x")) }, scale, []string{"deleting x@ "}},
		{"delete all", func(c client.Client) error { return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a")) }, pods, []string{"deleting x@5 u", "deleting y@7 v"}},
		{"delete all unstructured", func(c client.Client) error { return c.DeleteAllOf(ctx, unstructuredPod(), client.InNamespace("a")) }, pods, []string{"deleting x@5 u", "deleting y@7 v"}},
		{"delete all, status", func(c client.Client) error { return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a")) }, status, nil},
		{"dry run of delete all", func(c client.Client) error {
			return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a"), client.DryRunAll)
		}, pods, nil},

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
			n := &recorder{}
			s := responding(tt.answer)
			if tt.answer == nil {
				s.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", nil))
			}
			if err := tt.write(newClient(t, s, cachedIn(n))); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(n.calls, tt.want) {
				t.Errorf("notified %q, want %q", n.calls, tt.want)
			}
		})
	}
}

func TestConsistencyCanBeOff(t *testing.T) {
	ctx := context.Background()
	n := &recorder{}
	c := newClient(t, podServer(), cachedIn(n, func(o *client.CacheOptions) { o.EnableReadYourWritesConsistency = new(false) }))
	if err := c.Create(ctx, pod("a", "x")); err != nil || len(n.calls) != 0 {
		t.Errorf("error %v, notified %v", err, n.calls)
	}

	// A wrapper that hides the cache, so that it cannot be notified.
	hides := hidden{n}
	o := client.Options{Mapper: mapper()}
	cachedIn(hides, func(o *client.CacheOptions) { o.EnableReadYourWritesConsistency = new(true) })(&o)
	if _, err := client.New(podServer().config(), o); err == nil {
		t.Error("a cache that cannot be notified was accepted")
	}
}

type hidden struct{ cache client.Reader }

func (h hidden) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return h.cache.Get(ctx, key, obj, opts...)
}

func (h hidden) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return h.cache.List(ctx, list, opts...)
}

type (
	embedding struct{ client.Reader }
	inner     struct{ client.Reader }
	nested    struct {
		*inner
		_ *int
	}
)

// A wrapped cache is notified if it is embedded in a struct; otherwise a message is logged.
func TestWrappedCache(t *testing.T) {
	for name, wrap := range map[string]func(client.Reader) client.Reader{
		"embedded":               func(r client.Reader) client.Reader { return embedding{r} },
		"embedded, by pointer":   func(r client.Reader) client.Reader { return &embedding{r} },
		"embedded, twice":        func(r client.Reader) client.Reader { return &embedding{&embedding{r}} },
		"embedded, not exported": func(r client.Reader) client.Reader { return nested{inner: &inner{r}} },
	} {
		t.Run(name, func(t *testing.T) {
			n := &recorder{}
			if err := newClient(t, podServer(), cachedIn(wrap(n))).Create(context.Background(), pod("a", "x")); err != nil || len(n.calls) != 1 {
				t.Errorf("error %v, notified %v", err, n.calls)
			}
		})
	}
	for name, tt := range map[string]struct {
		reader client.Reader
		enable *bool
		logged bool
	}{
		"hidden":           {reader: hidden{&recorder{}}, logged: true},
		"nothing embedded": {reader: embedding{}, logged: true},
		"switched off":     {reader: hidden{&recorder{}}, enable: new(false)},
		"found":            {reader: embedding{&recorder{}}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			newClient(t, podServer(), cachedIn(tt.reader, func(o *client.CacheOptions) { o.EnableReadYourWritesConsistency = tt.enable }), func(o *client.Options) {
				o.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			})
			if logged := len(lines) == 1 && strings.Contains(lines[0], "reads may not include this client's own writes"); logged != tt.logged {
				t.Errorf("logged %q", lines)
			}
		})
	}
}
