// Package controller has the controller of Proxies, which knows one version of them, and the
// controller that migrates them to the storage version.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/log"
	netv1 "flyball.dev/examples/versions/api/v1"
)

// The reasons of the condition Ready.
const (
	ReasonConfigured = "Configured"
	ReasonNameTaken  = "NameTaken"
	// ReasonReconcileFailed is the reason if the API server refuses the ConfigMap, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// nameTakenInterval is how often a name that is taken is tried again. There is no event to wait for:
// the ConfigMap that has the name is not ours.
const nameTakenInterval = 30 * time.Second

// ConfigKey is the key of the configuration in the ConfigMap.
const ConfigKey = "proxy.conf"

// errNameTaken is the error if there is a ConfigMap of that name that belongs to somebody else.
var errNameTaken = errors.New("there is a ConfigMap of this name that the Proxy does not control")

// ProxyReconciler writes the configuration of each Proxy to a ConfigMap. It works on the hub and
// does not see in which version a Proxy was written or is stored.
type ProxyReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=net.example.com,resources=proxies,verbs=get;list;watch
// +kubebuilder:rbac:groups=net.example.com,resources=proxies/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=net.example.com,resources=proxies/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *ProxyReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&netv1.Proxy{}).
		Owns(&corev1.ConfigMap{}).
		Named("proxy").
		Complete(r)
}

// Reconcile brings the ConfigMap of one Proxy up to date, and its status.
func (r *ProxyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	proxy := &netv1.Proxy{}
	if err := r.Get(ctx, req.NamespacedName, proxy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !proxy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the ConfigMap is garbage collected
	}
	ready := metav1.Condition{Type: netv1.ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonConfigured,
		Message: "the ConfigMap has the configuration"}
	err := r.write(ctx, proxy)
	switch {
	case errors.Is(err, errNameTaken):
		// A retry with backoff would not help.
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonNameTaken, err.Error()
		return ctrl.Result{RequeueAfter: nameTakenInterval}, r.updateStatus(ctx, proxy, ready)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	case err != nil:
		// It is retried with backoff. The user sees in the status why.
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonReconcileFailed, err.Error()
	}
	return ctrl.Result{}, errors.Join(err, r.updateStatus(ctx, proxy, ready))
}

// write creates or updates the ConfigMap, if it differs.
func (r *ProxyReconciler) write(ctx context.Context, proxy *netv1.Proxy) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name + netv1.ConfigSuffix}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		if cm.UID != "" && !metav1.IsControlledBy(cm, proxy) {
			return errNameTaken
		}
		cm.Data = map[string]string{ConfigKey: configFor(proxy)}
		return ctrl.SetControllerReference(proxy, cm, r.Scheme)
	})
	if err != nil || result == controllerutil.OperationResultNone {
		return err
	}
	log.FromContext(ctx).Info("ConfigMap " + string(result) + ".")
	r.Recorder.Eventf(proxy, cm, corev1.EventTypeNormal, "Configured", "Configure", "ConfigMap %s %s", cm.Name, result)
	return nil
}

// configFor returns the configuration of a proxy. A Proxy may have been written when there was no
// webhook that sets defaults.
func configFor(proxy *netv1.Proxy) string {
	spec := proxy.Spec.DeepCopy()
	spec.SetDefaults()
	config := fmt.Sprintf("upstream %s:%d\nmax_connections %d\nbalancing %s\nattempts %d\n",
		spec.Host, *spec.Port, *spec.MaxConnections, spec.Balancing, spec.Retries.Attempts)
	if spec.Retries.Timeout != nil {
		config += fmt.Sprintf("timeout %v\n", spec.Retries.Timeout.Duration)
	}
	return config
}

// updateStatus updates the status if it has changed.
func (r *ProxyReconciler) updateStatus(ctx context.Context, proxy *netv1.Proxy, ready metav1.Condition) error {
	before := proxy.Status.DeepCopy()
	proxy.Status.ObservedGeneration = proxy.Generation
	ready.ObservedGeneration = proxy.Generation
	meta.SetStatusCondition(&proxy.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &proxy.Status) {
		return nil
	}
	return r.Status().Update(ctx, proxy)
}
