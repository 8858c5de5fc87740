package flyball

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/bench/runtimes"

	ctrl "flyball.dev/ctrl"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
)

// Runtime implements runtimes.Runtime. It logs nothing.
type Runtime struct{}

// New returns the runtime.
func New() Runtime {
	ctrl.SetLogger(logr.Discard())
	return Runtime{}
}

func (Runtime) Name() string { return name }

func (Runtime) NewQueue(name string, limiter workqueue.TypedRateLimiter[runtimes.Key]) runtimes.Queue {
	return queue{priorityqueue.New(name, func(o *priorityqueue.Opts[runtimes.Key]) {
		o.RateLimiter = limiter
		o.Log = logr.Discard()
	})}
}

// queue is a priority queue as a runtimes.Queue.
type queue struct {
	priorityqueue.PriorityQueue[runtimes.Key]
}

func (q queue) AddWithPriority(key runtimes.Key, priority int) {
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
}

// reader is a client.Reader as a runtimes.Reader.
type reader struct{ client.Reader }

func (r reader) Get(ctx context.Context, key runtimes.Key, out runtimes.Object) error {
	return r.Reader.Get(ctx, key, out)
}

func (r reader) List(ctx context.Context, out runtimes.ObjectList, s runtimes.Selection) error {
	o := client.ListOptions{Namespace: s.Namespace, LabelSelector: s.Labels, FieldSelector: s.Fields}
	if s.Shared {
		o.UnsafeDisableDeepCopy = new(true)
	}
	return r.Reader.List(ctx, out, &o)
}

func cacheOptions(s runtimes.Server) cache.Options {
	o := cache.Options{Scheme: s.Scheme, Mapper: s.Mapper}
	if s.Namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{s.Namespace: {}}
	}
	return o
}

func (Runtime) NewCache(s runtimes.Server) (runtimes.Cache, error) {
	c, err := cache.New(s.Config, cacheOptions(s))
	return informers{reader{c}, c}, err
}

// informers is a cache as runtimes.Informers.
type informers struct {
	reader
	cache cache.Cache
}

func (i informers) Watch(ctx context.Context, obj runtimes.Object) error {
	_, err := i.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	return err
}

func (i informers) Handle(ctx context.Context, obj runtimes.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := i.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

func (i informers) Index(ctx context.Context, obj runtimes.Object, field string, values func(runtimes.Object) []string) error {
	return i.cache.IndexField(ctx, obj, field, func(o client.Object) []string { return values(o) })
}

func (i informers) Start(ctx context.Context) error      { return i.cache.Start(ctx) }
func (i informers) WaitForSync(ctx context.Context) bool { return i.cache.WaitForCacheSync(ctx) }

func (Runtime) NewManager(s runtimes.Server) (runtimes.Manager, error) {
	o := ctrl.Options{Scheme: s.Scheme, Cache: cacheOptions(s), Metrics: server.Options{BindAddress: "0"}}
	if s.Mapper != nil {
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return s.Mapper, nil }
	}
	m, err := ctrl.NewManager(s.Config, o)
	if err != nil {
		return nil, err
	}
	return controllers{reader{m.GetClient()}, m}, nil
}

// controllers is a manager as a runtimes.Manager.
type controllers struct {
	reader
	manager ctrl.Manager
}

func (c controllers) Start(ctx context.Context) error { return c.manager.Start(ctx) }

func (c controllers) Update(ctx context.Context, obj runtimes.Object) error {
	return c.manager.GetClient().Update(ctx, obj)
}

func (c controllers) UpdateStatus(ctx context.Context, obj runtimes.Object) error {
	return c.manager.GetClient().Status().Update(ctx, obj)
}

func (c controllers) Add(spec runtimes.Controller) error {
	var updates predicate.Funcs
	if spec.Updated != nil {
		updates.UpdateFunc = func(e event.UpdateEvent) bool { return spec.Updated(e.ObjectNew) }
	}
	b := ctrl.NewControllerManagedBy(c.manager).Named(spec.Name).For(spec.For, builder.WithPredicates(updates))
	for _, obj := range spec.Owns {
		b.Owns(obj)
	}
	// The same controller is made again in every round.
	again := true
	b.WithOptions(controller.Options{MaxConcurrentReconciles: spec.Workers, SkipNameValidation: &again})
	return b.Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, spec.Reconcile(ctx, req.NamespacedName)
	}))
}

func (Runtime) NewWebhooks(scheme *runtime.Scheme, hostname string) http.Handler {
	server := webhook.NewServer(webhook.Options{})
	server.Register(runtimes.ValidatePath, admission.WithValidator(scheme, pods{}))
	server.Register(runtimes.DefaultPath, admission.WithDefaulter(scheme, pods{hostname}))
	return server.WebhookMux()
}

// pods accepts all pods and sets their hostname.
type pods struct{ hostname string }

func (p pods) Default(_ context.Context, pod *corev1.Pod) error {
	pod.Spec.Hostname = p.hostname
	return nil
}

func (pods) ValidateCreate(context.Context, *corev1.Pod) (admission.Warnings, error) { return nil, nil }

func (pods) ValidateUpdate(context.Context, *corev1.Pod, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func (pods) ValidateDelete(context.Context, *corev1.Pod) (admission.Warnings, error) { return nil, nil }

func (Runtime) NewFake(scheme *runtime.Scheme, objects, withStatus []runtimes.Object) runtimes.Fake {
	b := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields()
	for _, obj := range objects {
		b.WithObjects(obj)
	}
	for _, obj := range withStatus {
		b.WithStatusSubresource(obj)
	}
	c := b.Build()
	return fakeClient{reader{c}, c}
}

// fakeClient is a client of package fake as a runtimes.Fake.
type fakeClient struct {
	reader
	client client.Client
}

func (f fakeClient) Create(ctx context.Context, obj runtimes.Object) error {
	return f.client.Create(ctx, obj)
}

func (f fakeClient) Update(ctx context.Context, obj runtimes.Object) error {
	return f.client.Update(ctx, obj)
}

func (f fakeClient) UpdateStatus(ctx context.Context, obj runtimes.Object) error {
	return f.client.Status().Update(ctx, obj)
}

func (f fakeClient) UpdateScale(ctx context.Context, obj, scale runtimes.Object) error {
	return f.client.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale))
}

func (f fakeClient) Patch(ctx context.Context, obj runtimes.Object, t types.PatchType, patch []byte, owner string) error {
	return f.client.Patch(ctx, obj, client.RawPatch(t, patch), client.FieldOwner(owner))
}

func (f fakeClient) PatchStatus(ctx context.Context, obj runtimes.Object, t types.PatchType, patch []byte) error {
	return f.client.Status().Patch(ctx, obj, client.RawPatch(t, patch))
}

func (f fakeClient) Apply(ctx context.Context, obj *unstructured.Unstructured, owner string, force bool) error {
	o := client.ApplyOptions{FieldManager: owner, Force: &force}
	return f.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), &o)
}

func (f fakeClient) Delete(ctx context.Context, obj runtimes.Object) error {
	return f.client.Delete(ctx, obj)
}

func (f fakeClient) DeleteAllOf(ctx context.Context, obj runtimes.Object, s runtimes.Selection) error {
	o := client.ListOptions{Namespace: s.Namespace, LabelSelector: s.Labels, FieldSelector: s.Fields}
	return f.client.DeleteAllOf(ctx, obj, &client.DeleteAllOfOptions{ListOptions: o})
}
