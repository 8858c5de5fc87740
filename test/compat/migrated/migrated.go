// Package migrated has an example for the result of each row of the table in docs/migrating.md, below a comment with
// the row's first column. It builds with controller-runtime and with Flyball.
package migrated

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// row: InjectClient, InjectCache, InjectScheme and package runtime/inject
type reconciler struct {
	client.Client
	cache cache.Cache
}

func newReconciler(mgr ctrl.Manager) *reconciler {
	return &reconciler{Client: mgr.GetClient(), cache: mgr.GetCache()}
}

// row: Reconcile(req)
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.Get(ctx, req.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName == "" {
		// row: Result{Requeue: true}
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}
	return ctrl.Result{}, errors.New("not ready")
}

func (r *reconciler) find(context.Context, client.Object) []reconcile.Request { return nil }

// row: runtime.Object in clients, handlers and predicates
func (r *reconciler) deleteAll(ctx context.Context, obj client.Object, list client.ObjectList) error {
	return errors.Join(r.Delete(ctx, obj), r.List(ctx, list))
}

func options(objs []client.Object, d time.Duration, m map[client.Object]cache.ByObject, a string, o []func(*tls.Config)) ctrl.Options {
	return ctrl.Options{
		Client: client.Options{
			Cache: &client.CacheOptions{
				// row: ClientDisableCacheFor: objs
				// row: NewClientBuilder().WithUncached(objs...)
				DisableFor: objs,
				// row: NewDelegatingClientInput{CacheUnstructured: true}
				Unstructured: true,
			},
		},
		Cache: cache.Options{
			// row: SyncPeriod: d of the manager
			SyncPeriod: &d,
			// row: Namespace: ns of the manager
			// row: NewCache: cache.MultiNamespacedCacheBuilder(list)
			DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: labels.Everything()}},
			// row: NewCache: cache.BuilderWithOptions(cache.Options{SelectorsByObject: m})
			ByObject: m,
		},
		// row: MetricsBindAddress: a
		Metrics: metricsserver.Options{BindAddress: a},
		// row: Host, Port, CertDir, TLSOpts of the manager
		// row: &webhook.Server{...}
		WebhookServer: webhook.NewServer(webhook.Options{Host: "", Port: 9443, CertDir: "", TLSOpts: o}),
		// row: manager.Options.NewClient with client.NewDelegatingClient(in)
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			return client.New(config, options)
		},
	}
}

func controllers(mgr ctrl.Manager, ch chan event.GenericEvent, informer cache.Informer, h handler.EventHandler, p predicate.Predicate) error {
	r := newReconciler(mgr)
	// row: two controllers of one name
	err := ctrl.NewControllerManagedBy(mgr).Named("pods").
		For(&corev1.Pod{}).
		// row: Watches(&source.Kind{Type: obj}, h)
		Watches(&corev1.Secret{}, h).
		// row: &handler.EnqueueRequestsFromMapFunc{ToRequests: handler.ToRequestsFunc(f)}
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.find)).
		// row: Watches(&source.Channel{Source: ch}, h)
		WatchesRawSource(source.Channel(ch, h)).
		// row: &source.Informer{Informer: i} as an argument
		WatchesRawSource(&source.Informer{Informer: informer, Handler: h}).
		Complete(r)
	if err != nil {
		return err
	}
	c, err := controller.New("raw", mgr, controller.Options{Reconciler: r, SkipNameValidation: ptr.To(true)})
	if err != nil {
		return err
	}
	// row: c.Watch(&source.Kind{Type: obj}, h, p...)
	return c.Watch(source.Kind[client.Object](mgr.GetCache(), &corev1.Pod{}, h, p))
}

// row: handlers without a context
// row: workqueue.RateLimitingInterface in handlers
var _ = handler.Funcs{
	CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
	},
}

// rules are the defaulter and the validator of pods.
//
// row: webhook.Defaulter, webhook.Validator on the API type
type rules struct{}

var (
	_ admission.Defaulter[*corev1.Pod] = rules{}
	_ admission.Validator[*corev1.Pod] = rules{}
)

func (rules) Default(context.Context, *corev1.Pod) error { return nil }

func (rules) ValidateCreate(context.Context, *corev1.Pod) (admission.Warnings, error) {
	return admission.Warnings{"beware"}, nil
}

func (rules) ValidateUpdate(_ context.Context, _, _ *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func (rules) ValidateDelete(context.Context, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func webhooks(mgr ctrl.Manager) error {
	// row: d, err := admission.NewDecoder(scheme), InjectDecoder
	d := admission.NewDecoder(mgr.GetScheme())
	mgr.GetWebhookServer().Register("/raw", &admission.Webhook{
		Handler: admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
			if err := d.Decode(req, &corev1.Pod{}); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			return admission.Allowed("")
		}),
	})
	// row: NewWebhookManagedBy(mgr).For(obj)
	return ctrl.NewWebhookManagedBy(mgr, &corev1.Pod{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete()
}

func writes(ctx context.Context, c client.Client, mgr ctrl.Manager) error {
	// row: c.Patch(ctx, obj, client.Apply, o...)
	configuration := corev1ac.ConfigMap("x", "default").WithData(map[string]string{"a": "b"})
	err := c.Apply(ctx, configuration, client.FieldOwner("me"), client.ForceOwnership)
	// row: mgr.GetEventRecorderFor(name)
	about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	mgr.GetEventRecorder("me").Eventf(about, nil, corev1.EventTypeNormal, "Applied", "Apply", "applied")
	return err
}

// recorders is a part of a manager of one's own.
type recorders struct{ ctrl.Manager }

// row: GetEventRecorder(name) events.EventRecorder of a manager or cluster of one's own
func (r recorders) GetEventRecorder(name string) recorder.EventRecorder {
	return r.Manager.GetEventRecorder("own-" + name)
}

var (
	_ ctrl.Manager                                 = recorders{}
	_ func(recorder.Provider) events.EventRecorder = func(p recorder.Provider) events.EventRecorder { return p.GetEventRecorder("x") }
)

// Main is the main function of the example.
func Main(h http.Handler) error {
	// row: ctrl.ConfigFile().AtPath(f), Options.AndFrom
	address := flag.String("metrics", ":8080", "address of the metrics server")
	flag.Parse()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options(nil, time.Hour, nil, *address, nil))
	if err != nil {
		return err
	}
	// row: mgr.AddMetricsExtraHandler(p, h)
	err = errors.Join(mgr.AddMetricsServerExtraHandler("/extra", h), controllers(mgr, nil, nil, nil, nil), webhooks(mgr))
	if err != nil {
		return err
	}
	// row: mgr.Start(stop) with a channel
	ctx := ctrl.SetupSignalHandler()
	own := newReconciler(mgr)
	if err := errors.Join(writes(ctx, own, mgr), own.deleteAll(ctx, &corev1.Pod{}, &corev1.PodList{})); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
