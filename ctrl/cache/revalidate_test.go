package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/metrics"
)

// lists returns the names in a list from the cache and from the server.
func (p *fixture) lists(t *testing.T, list func() client.ObjectList, opts ...client.ListOption) (cached, live []string) {
	t.Helper()
	names := func(c client.Client, opts ...client.ListOption) (names []string) {
		l := list()
		if err := c.List(t.Context(), l, opts...); err != nil {
			t.Fatal(err)
		}
		if err := eachName(l, func(name string) { names = append(names, name) }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	return names(p), names(p.live, opts...)
}

// A list from a cache with a field selector equals that from the server after every write of this
// process, before and after the watch has delivered it.
func TestFieldSelectors(t *testing.T) {
	opts := func(obj client.Object, field string, equal bool, value string) cache.Options {
		selector := fields.OneTermNotEqualSelector(field, value)
		if equal {
			selector = fields.OneTermEqualSelector(field, value)
		}
		return cache.Options{
			DefaultEnableWatchBookmarks: new(false),
			ByObject:                    map[client.Object]cache.ByObject{obj: {Field: selector}},
		}
	}
	expect := func(t *testing.T, p *fixture, when string, list func() client.ObjectList, selector string) {
		t.Helper()
		cached, live := p.lists(t, list, client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie(selector)})
		if !slices.Equal(cached, live) {
			t.Errorf("%s: the cache has %v, the server %v", when, cached, live)
		}
	}
	t.Run("nodes", func(t *testing.T) {
		withFixture(t, opts(&corev1.Node{}, "spec.unschedulable", true, "false"), func(t *testing.T, p *fixture) {
			ctx, nodes := t.Context(), func() client.ObjectList { return &corev1.NodeList{} }
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if err := p.live.Create(ctx, node); err != nil {
				t.Fatal(err)
			}
			p.hold(t, &corev1.Node{})
			for n, unschedulable := range []bool{false, true, true, false} {
				node.Labels = map[string]string{"n": fmt.Sprint(n)}
				node.Spec.Unschedulable = unschedulable
				if err := p.Update(ctx, node); err != nil {
					t.Fatal(err)
				}
				var got corev1.Node
				err := p.Get(ctx, client.ObjectKeyFromObject(node), &got)
				if unschedulable && !apierrors.IsNotFound(err) || !unschedulable && (err != nil || got.Labels["n"] != fmt.Sprint(n)) {
					t.Errorf("unschedulable %t: read %v, %v", unschedulable, got.Labels, err)
				}
				expect(t, p, "while the watch is held back", nodes, "spec.unschedulable=false")
			}
			p.release()
			expect(t, p, "in the end", nodes, "spec.unschedulable=false")
		})
	})
	t.Run("jobs", func(t *testing.T) {
		withFixture(t, opts(&batchv1.Job{}, "status.successful", false, "0"), func(t *testing.T, p *fixture) {
			ctx, jobs := t.Context(), func() client.ObjectList { return &batchv1.JobList{} }
			p.hold(t, &batchv1.Job{})
			check := func(when string) {
				t.Helper()
				expect(t, p, when, jobs, "status.successful!=0")
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"}}
			job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
			if err := p.Create(ctx, job); err != nil {
				t.Fatal(err)
			}
			check("created")
			job.Labels["x"] = "y"
			if err := p.Update(ctx, job); err != nil {
				t.Fatal(err)
			}
			check("updated")
			job.Status.Active, job.Status.StartTime = 1, &metav1.Time{Time: time.Now()}
			if err := p.Status().Update(ctx, job); err != nil {
				t.Fatal(err)
			}
			check("active")
			job.Status.Active, job.Status.Succeeded = 0, 1
			if err := p.Status().Update(ctx, job); err != nil {
				t.Fatal(err)
			}
			check("succeeded")
			p.release()
			check("in the end")
		})
	})
	t.Run("name and namespace", func(t *testing.T) {
		withFixture(t, opts(&corev1.ConfigMap{}, "metadata.name", false, "hidden"), func(t *testing.T, p *fixture) {
			p.hold(t, &corev1.ConfigMap{})
			for _, name := range []string{"hidden", "shown"} {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
				if err := p.Create(t.Context(), cm); err != nil {
					t.Fatal(err)
				}
			}
			reads := p.reads()
			if cached, _ := p.lists(t, func() client.ObjectList { return &corev1.ConfigMapList{} }); !slices.Contains(cached, "shown") || slices.Contains(cached, "hidden") {
				t.Errorf("the cache has %v", cached)
			}
			if n := p.reads() - reads; n > 1 { // the test's own
				t.Errorf("%d requests where the selector can be evaluated", n)
			}
		})
	})
}

// A live read takes one request, with the selectors and the permission of the watch. The next read
// takes none, nor does one with DisableReadYourWritesConsistency.
func TestLiveReads(t *testing.T) {
	opts := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"mine": "yes"})}
	withFixture(t, opts, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		var list []*appsv1.Deployment
		for n := range 30 {
			d := deployment(fmt.Sprint("d-", n))
			d.Labels["mine"] = "yes"
			if err := p.live.Create(ctx, d); err != nil {
				t.Fatal(err)
			}
			list = append(list, d)
		}
		p.hold(t, &appsv1.Deployment{})
		d := list[0]
		requests := func(want int, read func() error) {
			t.Helper()
			before := p.reads()
			if err := read(); err != nil {
				t.Error(err)
			}
			if n := p.reads() - before; n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		}
		get := func(opts ...client.GetOption) func() error {
			return func() error { return p.Get(ctx, client.ObjectKeyFromObject(d), d, opts...) }
		}
		metadataPatch := func(label string) {
			t.Helper()
			if err := p.Patch(ctx, metadataOf(d, deployments), merge(`{"metadata":{"labels":%s}}`, label)); err != nil {
				t.Fatal(err)
			}
		}
		metadataPatch(`{"n":"1"}`)
		requests(0, get(client.DisableReadYourWritesConsistency))
		requests(0, func() error { return p.Get(ctx, client.ObjectKeyFromObject(list[1]), &appsv1.Deployment{}) })
		requests(1, get())
		requests(0, get())
		// The labels in the response do not match the selector any more.
		metadataPatch(`{"mine":"no"}`)
		requests(0, func() error { return client.IgnoreNotFound(get()()) })

		if err := p.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		all := func() error {
			var left appsv1.DeploymentList
			if err := p.List(ctx, &left); err != nil || len(left.Items) != 0 {
				return fmt.Errorf("%d deployments are left, %v", len(left.Items), err)
			}
			return nil
		}
		requests(1, all)
		requests(0, all)
		p.release()
		requests(0, all)
	})
}

// Concurrent readers of the same object share a live read.
func TestLiveReadsAreShared(t *testing.T) {
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		d := deployment("d")
		if err := p.live.Create(ctx, d); err != nil {
			t.Fatal(err)
		}
		p.hold(t, &appsv1.Deployment{})
		for name, read := range map[string]func() (label string, err error){
			"get": func() (string, error) {
				var got appsv1.Deployment
				err := p.Get(ctx, client.ObjectKeyFromObject(d), &got)
				return got.Labels["n"], err
			},
			"list": func() (string, error) {
				var got appsv1.DeploymentList
				if err := p.List(ctx, &got); err != nil {
					return "", err
				}
				return got.Items[0].Labels["n"], nil
			},
		} {
			if err := p.Patch(ctx, metadataOf(d, deployments), merge(`{"metadata":{"labels":{"n":%q}}}`, name)); err != nil {
				t.Fatal(err)
			}
			before := p.reads()
			var readers sync.WaitGroup
			for range 20 {
				readers.Go(func() {
					if got, err := read(); got != name || err != nil {
						t.Errorf("%s: read %q, %v", name, got, err)
					}
				})
			}
			readers.Wait()
			if n := p.reads() - before; n != 1 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}

// A write that the watch has delivered takes no live read.
func TestNoLiveReadAfterTheWatch(t *testing.T) {
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		for name, write := range writes {
			d := deployment(strings.ReplaceAll(name, " ", "-"))
			if err := p.live.Create(ctx, d); err != nil {
				t.Fatal(err)
			}
			p.hold(t, &appsv1.Deployment{}, metadataOf(d, deployments))
			if err := write(ctx, p, d, 0); err != nil {
				t.Fatal(err)
			}
			p.release()
			before := p.reads()
			if err := p.List(ctx, &appsv1.DeploymentList{}); err != nil {
				t.Fatal(err)
			}
			if n := p.reads() - before; n > 0 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}

// The response to an eviction does not contain the pod.
func TestEviction(t *testing.T) {
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		if err := p.live.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
		p.hold(t, &corev1.Pod{})
		if err := p.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{}); err != nil {
			t.Fatal(err)
		}
		want := p.live.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if got := p.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); apierrors.IsNotFound(got) != apierrors.IsNotFound(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// If a live read fails temporarily, the read returns the error instead of a stale object. If the
// server refuses it, the read returns the object as the watch has delivered it.
func TestLiveReadsFail(t *testing.T) {
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		d := deployment("d")
		if err := p.live.Create(ctx, d); err != nil {
			t.Fatal(err)
		}
		p.hold(t, &appsv1.Deployment{})
		if err := p.Patch(ctx, metadataOf(d, deployments), merge(`{"metadata":{"labels":{"n":"1"}}}`)); err != nil {
			t.Fatal(err)
		}
		get := func() error {
			d.Labels = nil
			return p.Get(ctx, client.ObjectKeyFromObject(d), d)
		}
		p.fail(http.StatusServiceUnavailable)
		if err := get(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("error %v", err)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if err := p.Get(canceled, client.ObjectKeyFromObject(d), d); err == nil {
			t.Error("no error after the context has ended")
		}
		p.fail(0)
		if err := get(); err != nil || d.Labels["n"] != "1" {
			t.Errorf("read %v, %v", d.Labels, err)
		}
		if err := p.Patch(ctx, metadataOf(d, deployments), merge(`{"metadata":{"labels":{"n":"2"}}}`)); err != nil {
			t.Fatal(err)
		}
		p.fail(http.StatusForbidden)
		if err := get(); err != nil || d.Labels["n"] != "1" {
			t.Errorf("read %v, %v", d.Labels, err)
		}
		p.release()
		if err := get(); err != nil || d.Labels["n"] != "2" {
			t.Errorf("read %v, %v", d.Labels, err)
		}
	})
}

// An overlay expires even if the watch does not deliver the write, and without bookmarks.
func TestOverlayExpires(t *testing.T) {
	opts := cache.Options{DefaultEnableWatchBookmarks: new(false)}
	withFixture(t, opts, func(t *testing.T, p *fixture) {
		ctx := t.Context()
		p.hold(t, &corev1.ConfigMap{})
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		if err := p.Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		get := func() error { return p.Get(ctx, client.ObjectKeyFromObject(cm), &corev1.ConfigMap{}) }
		time.Sleep(4 * time.Minute)
		if err := get(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("the overlay has not expired after five minutes without an event: %v", err)
		}
		p.release()
		testserver.Wait()
		if err := get(); err != nil {
			t.Error(err)
		}
	})
}

// wrapped is a cache that counts its reads.
type wrapped struct {
	cache.Cache
	reads int
}

func (w *wrapped) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	w.reads++
	return w.Cache.Get(ctx, key, obj, opts...)
}

// A cache that wraps this one reads its own writes as well.
func TestWrappedCache(t *testing.T) {
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		var own *wrapped
		c, err := cluster.New(p.config, func(o *cluster.Options) {
			o.NewCache = func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
				inner, err := cache.New(config, opts)
				own = &wrapped{Cache: inner}
				return own, err
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		if _, err := c.GetCache().GetInformer(ctx, cm); err != nil {
			t.Fatal(err)
		}
		testserver.Wait()
		p.gate.shut()
		if err := c.GetClient().Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		if err := c.GetClient().Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil || own.reads != 1 {
			t.Errorf("error %v after %d reads of the wrapper", err, own.reads)
		}
	})
}

// Only reads that wait for own writes are measured.
func TestMetricsOfLiveReads(t *testing.T) {
	count := func(operation, result string) (n uint64) {
		families, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "controller_runtime_client_consistency_wait_duration_seconds" {
				continue
			}
			for _, m := range f.Metric { // labels are sorted by name
				if m.Label[0].GetValue() == operation && m.Label[1].GetValue() == result {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
		return n
	}
	withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
		d := deployment("measured")
		if err := p.live.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		p.hold(t, &appsv1.Deployment{})
		key := client.ObjectKeyFromObject(d)
		get := func(ctx context.Context) error { return p.Get(ctx, key, &appsv1.Deployment{}) }
		list := func(ctx context.Context) error { return p.List(ctx, &appsv1.DeploymentList{}) }
		ended, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for n, step := range []struct {
			operation, result string
			read              func(context.Context) error
			ctx               context.Context
			status            int
		}{
			{"get", "success", get, t.Context(), 0},
			{"list", "success", list, t.Context(), 0},
			{"get", "error", get, t.Context(), http.StatusInternalServerError},
			{"get", "timeout", get, ended, 0},
		} {
			if err := p.SubResource("scale").Patch(t.Context(), d, merge(`{"spec":{"replicas":%d}}`, n+2)); err != nil {
				t.Fatal(err)
			}
			before := count(step.operation, step.result)
			p.fail(step.status)
			err := step.read(step.ctx)
			p.fail(0)
			if (err == nil) != (step.result == "success") {
				t.Errorf("%s, %s: %v", step.operation, step.result, err)
			}
			if n := count(step.operation, step.result) - before; n != 1 {
				t.Errorf("%s, %s: measured %d times", step.operation, step.result, n)
			}
			if err := get(t.Context()); err != nil {
				t.Fatal(err)
			}
			before = count("get", "success")
			if err := get(t.Context()); err != nil || count("get", "success") != before {
				t.Errorf("a read that does not wait is measured, or fails: %v", err)
			}
		}
		p.release()
	})
}
