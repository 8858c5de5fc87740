package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
	"flyball.dev/ctrl/internal/testserver"
)

// gate holds back the responses of watches while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) lifted() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// wrap puts the gate into a transport.
func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return fakeapi.Func(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") == "true" {
			resp.Body = &gatedBody{ReadCloser: resp.Body, gate: g, closed: make(chan struct{})}
		}
		return resp, err
	})
}

// gatedBody is the response body of a watch behind a gate.
type gatedBody struct {
	io.ReadCloser
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.gate.lifted():
		return n, err
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
}

func (b *gatedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// fixture is a control plane, a cache with watches that can be held back, a client that reads from
// the cache, and a live client.
type fixture struct {
	client.Client
	live   client.Client
	cache  cache.Cache
	config *rest.Config
	gate   *gate

	mu sync.Mutex
	// sent counts the lists and gets. If failing is not zero, they fail with that status.
	sent, failing int
}

// reads returns the number of lists and gets that were sent to the server.
func (p *fixture) reads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// fail makes lists and gets fail with a status. Zero ends that.
func (p *fixture) fail(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = code
}

// wrap counts and fails requests.
func (p *fixture) wrap(next http.RoundTripper) http.RoundTripper {
	return fakeapi.Func(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet || req.URL.Query().Get("watch") == "true" {
			return next.RoundTrip(req)
		}
		p.mu.Lock()
		p.sent++
		code := p.failing
		p.mu.Unlock()
		if code == 0 {
			return next.RoundTrip(req)
		}
		return &http.Response{StatusCode: code, Request: req, Body: http.NoBody, Header: http.Header{}}, nil
	})
}

// withFixture runs a test in virtual time, or on an external cluster.
func withFixture(t *testing.T, opts cache.Options, f func(t *testing.T, p *fixture)) {
	t.Helper()
	testserver.Test(t, func(t *testing.T) {
		p := &fixture{gate: newGate(), config: testserver.Start(t)}
		uncached := rest.CopyConfig(p.config)
		p.config.Wrap(p.gate.wrap)
		p.config.Wrap(p.wrap)
		var err error
		if p.cache, err = cache.New(p.config, opts); err != nil {
			t.Fatal(err)
		}
		if p.Client, err = client.New(p.config, client.Options{Cache: &client.CacheOptions{Reader: p.cache, Unstructured: true}}); err != nil {
			t.Fatal(err)
		}
		if p.live, err = client.New(uncached, client.Options{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.cache.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		ns := &corev1.Namespace{}
		ns.Name = "default"
		if err := p.live.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		f(t, p)
	})
}

// hold starts informers, waits until they have synced, and then holds back their watches.
func (p *fixture) hold(t *testing.T, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		if _, err := p.cache.GetInformer(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	testserver.Wait()
	p.gate.shut()
}

// release lets the watches catch up.
func (p *fixture) release() {
	p.gate.lift()
	testserver.Wait()
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
			},
		},
	}
}

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

func unstructuredOf(obj client.Object, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	return u
}

func metadataOf(obj client.Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	m.Namespace, m.Name = obj.GetNamespace(), obj.GetName()
	return m
}

func merge(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

// equalReads reports whether Get and List of a deployment return the same from the cache as from
// the server, in all representations.
func (p *fixture) equalReads(t *testing.T, key client.ObjectKey) (equal bool) {
	t.Helper()
	ctx := t.Context()
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	equal = true
	for _, obj := range []func() (client.Object, client.ObjectList){
		func() (client.Object, client.ObjectList) { return &appsv1.Deployment{}, &appsv1.DeploymentList{} },
		func() (client.Object, client.ObjectList) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(deployments.GroupVersion().WithKind("DeploymentList"))
			return unstructuredOf(named, deployments), list
		},
		func() (client.Object, client.ObjectList) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(deployments.GroupVersion().WithKind("DeploymentList"))
			return metadataOf(named, deployments), list
		},
	} {
		want, wantList := obj()
		got, gotList := obj()
		wantErr, gotErr := p.live.Get(ctx, key, want), p.Get(ctx, key, got)
		if apierrors.IsNotFound(wantErr) != apierrors.IsNotFound(gotErr) {
			t.Logf("%T: got error %v, want %v", want, gotErr, wantErr)
			equal = false
		} else if wantErr == nil && gotErr != nil {
			t.Fatal(gotErr)
		} else if wantErr == nil && !sameContent(got, want) {
			t.Logf("%T: got\n%v\nwant\n%v", want, got, want)
			equal = false
		}
		if err := errors.Join(p.live.List(ctx, wantList), p.List(ctx, gotList)); err != nil {
			t.Fatal(err)
		}
		wants, err1 := meta.ExtractList(wantList)
		gots, err2 := meta.ExtractList(gotList)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(gots, wants, func(a, b runtime.Object) bool {
			return sameContent(a.(client.Object), b.(client.Object))
		}) {
			t.Logf("%T: the lists differ", wantList)
			equal = false
		}
	}
	return equal
}

func eachName(list client.ObjectList, f func(name string)) error {
	return meta.EachListItem(list, func(obj runtime.Object) error {
		f(obj.(client.Object).GetName())
		return nil
	})
}

// sameContent compares objects except for their kind, which not every read sets.
func sameContent(a, b client.Object) bool {
	a, b = a.DeepCopyObject().(client.Object), b.DeepCopyObject().(client.Object)
	a.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	b.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return equality.Semantic.DeepEqual(a, b)
}

// writes are all ways to write a deployment.
var writes = map[string]func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error{
	"create": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Create(ctx, deployment(fmt.Sprint("new-", round)))
	},
	"update": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		d.Labels["round"] = fmt.Sprint(round)
		return c.Update(ctx, d)
	},
	"patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Patch(ctx, d, merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"unstructured patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Patch(ctx, unstructuredOf(d, deployments), merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"metadata patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Patch(ctx, metadataOf(d, deployments), merge(`{"metadata":{"labels":{"round":"%d"}}}`, round))
	},
	"metadata patch of the spec": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Patch(ctx, metadataOf(d, deployments), merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"apply": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Apply(ctx, appsv1ac.Deployment(d.Name, d.Namespace).WithSpec(appsv1ac.DeploymentSpec().WithReplicas(int32(round+2))), client.ForceOwnership, client.FieldOwner("test"))
	},
	"status update": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		d.Status.ObservedGeneration = int64(round + 1)
		return c.Status().Update(ctx, d)
	},
	"metadata status patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Status().Patch(ctx, metadataOf(d, deployments), merge(`{"status":{"observedGeneration":%d}}`, round+1))
	},
	"scale update": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(round + 2)}}
		return c.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale))
	},
	"scale patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.SubResource("scale").Patch(ctx, d, merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"unstructured scale patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.SubResource("scale").Patch(ctx, unstructuredOf(d, deployments), merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"metadata scale patch": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.SubResource("scale").Patch(ctx, metadataOf(d, deployments), merge(`{"spec":{"replicas":%d}}`, round+2))
	},
	"scale apply": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		scale := unstructuredOf(d, autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		if err := unstructured.SetNestedField(scale.Object, int64(round+2), "spec", "replicas"); err != nil {
			return err
		}
		body := client.ApplyConfigurationFromUnstructured(scale)
		return c.SubResource("scale").Apply(ctx, appsv1ac.Deployment(d.Name, d.Namespace), &client.SubResourceApplyOptions{SubResourceBody: body}, client.ForceOwnership, client.FieldOwner("test"))
	},
	"delete": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Delete(ctx, d)
	},
	"delete by name": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Delete(ctx, deployment(d.Name))
	},
	"delete in the foreground": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground))
	},
	"delete all": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(d.Namespace), client.MatchingLabels(d.Labels))
	},
	"delete all unstructured": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.DeleteAllOf(ctx, unstructuredOf(d, deployments), client.InNamespace(d.Namespace), client.MatchingLabels(d.Labels))
	},
	"delete all metadata": func(ctx context.Context, c client.Client, d *appsv1.Deployment, round int) error {
		return c.DeleteAllOf(ctx, metadataOf(d, deployments), client.InNamespace(d.Namespace), client.MatchingLabels(d.Labels))
	},
}

// The next read sees every write that was made through a client with the cache, in all
// representations, while the watches are held back; after they have caught up, it is the same.
func TestReadYourWritesOfAllVerbs(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			withFixture(t, cache.Options{}, func(t *testing.T, p *fixture) {
				const rounds = 4
				stale, ctx := 0, t.Context()
				for round := range rounds {
					d := deployment(fmt.Sprint("d-", round))
					if err := p.live.Create(ctx, d); err != nil {
						t.Fatal(err)
					}
					p.hold(t, &appsv1.Deployment{}, unstructuredOf(d, deployments), metadataOf(d, deployments))
					if err := write(ctx, p, d, round); err != nil {
						t.Fatal(err)
					}
					equal := p.equalReads(t, client.ObjectKeyFromObject(d))
					p.release()
					if !equal || !p.equalReads(t, client.ObjectKeyFromObject(d)) {
						stale++
					}
				}
				if stale > 0 {
					t.Errorf("%d of %d reads are stale", stale, rounds)
				}
			})
		})
	}
}
