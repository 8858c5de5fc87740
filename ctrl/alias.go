// Package ctrl has aliases of what most operators need of the packages below it.
//
// A whole operator, which gives every ConfigMap a label:
//
//	package main
//
//	import (
//		"context"
//		"os"
//
//		corev1 "k8s.io/api/core/v1"
//		metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
//
//		"flyball.dev/ctrl"
//		"flyball.dev/ctrl/client"
//		"flyball.dev/ctrl/log/zap"
//	)
//
//	type labeler struct{ client.Client }
//
//	func (l labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
//		var cm corev1.ConfigMap
//		if err := l.Get(ctx, req.NamespacedName, &cm); err != nil {
//			return ctrl.Result{}, client.IgnoreNotFound(err)
//		}
//		if cm.Labels["seen"] == "true" {
//			return ctrl.Result{}, nil
//		}
//		before := client.MergeFrom(cm.DeepCopy())
//		metav1.SetMetaDataLabel(&cm.ObjectMeta, "seen", "true")
//		return ctrl.Result{}, l.Patch(ctx, &cm, before)
//	}
//
//	func main() {
//		ctrl.SetLogger(zap.New())
//		mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
//		if err == nil {
//			err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(labeler{mgr.GetClient()})
//		}
//		if err == nil {
//			err = mgr.Start(ctrl.SetupSignalHandler())
//		}
//		if err != nil {
//			ctrl.Log.Error(err, "The operator has failed")
//			os.Exit(1)
//		}
//	}
//
// A reconciler is called for an object whenever it or an object that it owns has changed, and moves
// the actual state towards the desired state. It does not receive what changed: it reads the state.
package ctrl

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client/config"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/manager/signals"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/scheme"
)

// Builder is [builder.Builder].
type Builder = builder.Builder

// Request is [reconcile.Request]: the name of an object to be reconciled.
type Request = reconcile.Request

// Result is [reconcile.Result]: when to reconcile again.
type Result = reconcile.Result

// Manager is [manager.Manager], which runs controllers and other runnables.
type Manager = manager.Manager

// Options is [manager.Options].
type Options = manager.Options

// SchemeBuilder is [scheme.Builder], which adds Go types to a scheme.
//
// Deprecated: packages of API types should depend on little; use runtime.SchemeBuilder.
type SchemeBuilder = scheme.Builder

// GroupVersion is a group and a version of the API.
type GroupVersion = schema.GroupVersion

// GroupResource is a group and a resource of it, in no particular version.
type GroupResource = schema.GroupResource

// TypeMeta is the apiVersion and kind of an object.
type TypeMeta = metav1.TypeMeta

// ObjectMeta is the metadata that every object has.
type ObjectMeta = metav1.ObjectMeta

var (
	// RegisterFlags is [config.RegisterFlags]: it defines the flag --kubeconfig.
	RegisterFlags = config.RegisterFlags

	// GetConfigOrDie is [config.GetConfigOrDie]: GetConfig, which exits the program if it fails.
	GetConfigOrDie = config.GetConfigOrDie

	// GetConfig is [config.GetConfig]: it loads the configuration for the API server.
	GetConfig = config.GetConfig

	// NewControllerManagedBy is [builder.ControllerManagedBy]: a builder of a controller.
	NewControllerManagedBy = builder.ControllerManagedBy

	// NewManager is [manager.New].
	NewManager = manager.New

	// CreateOrPatch is [controllerutil.CreateOrPatch].
	CreateOrPatch = controllerutil.CreateOrPatch

	// CreateOrUpdate is [controllerutil.CreateOrUpdate].
	CreateOrUpdate = controllerutil.CreateOrUpdate

	// SetControllerReference is [controllerutil.SetControllerReference]: it makes one object own
	// another.
	SetControllerReference = controllerutil.SetControllerReference

	// SetupSignalHandler is [signals.SetupSignalHandler]: a context that is cancelled by
	// SIGTERM or SIGINT.
	SetupSignalHandler = signals.SetupSignalHandler

	// Log is [log.Log], the root logger of ctrl.
	Log = log.Log

	// LoggerFrom is [log.FromContext]. In a reconciler the logger names the controller, the object
	// and the reconcile.
	LoggerFrom = log.FromContext

	// LoggerInto is [log.IntoContext].
	LoggerInto = log.IntoContext

	// SetLogger is [log.SetLogger]: without it nothing is logged.
	SetLogger = log.SetLogger
)

// NewWebhookManagedBy is [builder.WebhookManagedBy]: it begins the webhooks of a kind.
func NewWebhookManagedBy[T runtime.Object](mgr manager.Manager, obj T) *builder.WebhookBuilder[T] {
	return builder.WebhookManagedBy(mgr, obj)
}
