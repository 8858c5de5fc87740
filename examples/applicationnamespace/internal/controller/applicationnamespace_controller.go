// Package controller has the controller of ApplicationNamespaces, which creates or adopts a Namespace
// for each, and releases it when the ApplicationNamespace is deleted.
package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
)

const (
	// Finalizer keeps an ApplicationNamespace until its Namespace is released.
	Finalizer = "tenancy.example.com/release"

	// fieldManager is the manager of the fields that the controller applies.
	fieldManager = "applicationnamespace"

	// namespaceNameField is the index of ApplicationNamespaces by the name of their Namespace.
	namespaceNameField = ".spec.namespaceName"
)

// ApplicationNamespaceReconciler reconciles the Namespace of each ApplicationNamespace.
type ApplicationNamespaceReconciler struct {
	client.Client
	// Live reads from the API server, not from the cache.
	Live     client.Reader
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=tenancy.example.com,resources=applicationnamespaces,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=tenancy.example.com,resources=applicationnamespaces/status,verbs=patch
// +kubebuilder:rbac:groups=tenancy.example.com,resources=applicationnamespaces/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager. A Namespace is mapped to all
// ApplicationNamespaces that name it, not only to its owner, so that one that was refused is
// reconciled when the Namespace becomes free.
func (r *ApplicationNamespaceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &tenancyv1.ApplicationNamespace{},
		namespaceNameField, func(o client.Object) []string {
			return []string{o.(*tenancyv1.ApplicationNamespace).Spec.NamespaceName}
		})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&tenancyv1.ApplicationNamespace{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.findClaimants)).
		Named("applicationnamespace").
		Complete(r)
}

// findClaimants returns a request for each ApplicationNamespace that names the Namespace.
func (r *ApplicationNamespaceReconciler) findClaimants(ctx context.Context, ns client.Object) []reconcile.Request {
	list := &tenancyv1.ApplicationNamespaceList{}
	if err := r.List(ctx, list, client.MatchingFields{namespaceNameField: ns.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the ApplicationNamespaces of a Namespace.", "namespace", ns.GetName())
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

// Reconcile claims the Namespace of one ApplicationNamespace, or releases it if the
// ApplicationNamespace is being deleted.
func (r *ApplicationNamespaceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &tenancyv1.ApplicationNamespace{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.release(ctx, app)
	}
	// The finalizer comes first: from the moment the Namespace has an owner, the collector deletes it
	// with the owner.
	if err := r.addFinalizer(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	ready, err := r.claim(ctx, app)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	}
	if err != nil {
		// It is retried with backoff. The user sees in the status why.
		ready = notReady(tenancyv1.ReasonReconcileFailed, "%v", err)
	}
	return ctrl.Result{}, errors.Join(err, r.updateStatus(ctx, app, ready))
}

// claim creates or adopts the Namespace, and applies the owner reference and the labels. It returns
// the condition Ready. If the Namespace cannot be claimed, an event of it will trigger the next
// attempt, so there is no error and no retry.
func (r *ApplicationNamespaceReconciler) claim(ctx context.Context,
	app *tenancyv1.ApplicationNamespace) (metav1.Condition, error) {
	name := app.Spec.NamespaceName
	if isProtected(name) {
		return notReady(tenancyv1.ReasonProtected, "Namespace %s is one of Kubernetes", name), nil
	}
	wanted := r.namespaceFor(app)
	ns := &corev1.Namespace{}
	err := r.Get(ctx, client.ObjectKey{Name: name}, ns)
	if apierrors.IsNotFound(err) { // or the cache is behind, and the Namespace is somebody's
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, ns)
	}
	if apierrors.IsNotFound(err) {
		return active(name), r.apply(ctx, app, ns, wanted, "Created")
	}
	if err != nil {
		return metav1.Condition{}, err
	}
	owner := metav1.GetControllerOf(ns)
	if owner != nil && owner.UID != app.UID {
		return notReady(tenancyv1.ReasonControlledByAnother, "Namespace %s is controlled by %s %s", name, owner.Kind,
			owner.Name), nil
	}
	if !ns.DeletionTimestamp.IsZero() {
		return notReady(tenancyv1.ReasonTerminating, "Namespace %s is being deleted; it will be created again", name), nil
	}
	applied, err := corev1ac.ExtractNamespace(ns, fieldManager)
	if err != nil {
		return metav1.Condition{}, err
	}
	if owner != nil && equality.Semantic.DeepEqual(applied, wanted) {
		return active(name), nil
	}
	reason := "Adopted"
	if owner != nil {
		reason = "Updated"
	}
	// If the Namespace has changed since it was read, the decision to adopt it has to be made again.
	return active(name), r.apply(ctx, app, ns, wanted.WithUID(ns.UID).WithResourceVersion(ns.ResourceVersion), reason)
}

// apply applies the owner reference and the labels of the Namespace, and reports it with that
// reason. The labels belong to the ApplicationNamespace, whoever has set them before.
func (r *ApplicationNamespaceReconciler) apply(ctx context.Context, app *tenancyv1.ApplicationNamespace,
	ns *corev1.Namespace, wanted *corev1ac.NamespaceApplyConfiguration, reason string) error {
	if err := r.confirm(ctx, app); err != nil {
		return err
	}
	err := r.Apply(ctx, wanted, client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return err
	}
	ns.Name = app.Spec.NamespaceName
	r.report(ctx, app, ns, reason)
	return nil
}

// confirm fails with a conflict, or because nothing is found, unless the ApplicationNamespace is still as it was read: a patch that
// changes nothing. The collector deletes a Namespace with an owner that is gone, so no Namespace may get an owner that an
// old view still shows. A read could come from the same old view.
func (r *ApplicationNamespaceReconciler) confirm(ctx context.Context, app *tenancyv1.ApplicationNamespace) error {
	return r.Patch(ctx, app.DeepCopy(), withLock(app))
}

// namespaceFor returns the fields of the Namespace that an ApplicationNamespace determines.
func (r *ApplicationNamespaceReconciler) namespaceFor(
	app *tenancyv1.ApplicationNamespace) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(app.Spec.NamespaceName).
		WithLabels(app.Spec.Labels).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(tenancyv1.GroupVersion.String()).
			WithKind("ApplicationNamespace").
			WithName(app.Name).
			WithUID(app.UID).
			WithController(true).
			WithBlockOwnerDeletion(true))
}

// release removes the owner reference from the Namespace if the policy is to retain it, and then
// the finalizer. What still has its owner then is garbage collected.
func (r *ApplicationNamespaceReconciler) release(ctx context.Context, app *tenancyv1.ApplicationNamespace) error {
	if !controllerutil.ContainsFinalizer(app, Finalizer) {
		return nil
	}
	if app.Spec.DeletionPolicy != tenancyv1.Delete {
		if err := r.disown(ctx, app); err != nil {
			return err
		}
	}
	before := app.DeepCopy()
	controllerutil.RemoveFinalizer(app, Finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, app, withLock(before)))
}

// disown removes the owner reference from the Namespace. It reads the Namespace from the API server:
// if a cache that lags behind did not show the reference, the Namespace would be lost.
func (r *ApplicationNamespaceReconciler) disown(ctx context.Context, app *tenancyv1.ApplicationNamespace) error {
	ns := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: app.Spec.NamespaceName}, ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(ns, app) {
		return nil
	}
	before := ns.DeepCopy()
	if err := controllerutil.RemoveControllerReference(app, ns, r.Scheme); err != nil {
		return err
	}
	if err := r.Patch(ctx, ns, withLock(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.report(ctx, app, ns, "Released")
	return nil
}

// addFinalizer adds the finalizer, if it is missing.
func (r *ApplicationNamespaceReconciler) addFinalizer(ctx context.Context, app *tenancyv1.ApplicationNamespace) error {
	before := app.DeepCopy()
	if !controllerutil.AddFinalizer(app, Finalizer) {
		return nil
	}
	return r.Patch(ctx, app, withLock(before))
}

// withLock returns the patch from an earlier state of an object to the present one. It replaces
// whole lists, such as the finalizers, so it must fail if the object has changed.
func withLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// updateStatus patches the status if it has changed, and records an event if the Namespace is
// refused.
func (r *ApplicationNamespaceReconciler) updateStatus(ctx context.Context, app *tenancyv1.ApplicationNamespace,
	ready metav1.Condition) error {
	before := app.DeepCopy()
	app.Status.ObservedGeneration = app.Generation
	ready.ObservedGeneration = app.Generation
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, app.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, app, client.MergeFrom(before)); err != nil {
		return err
	}
	was := meta.FindStatusCondition(before.Status.Conditions, ready.Type)
	if was != nil && was.Status == ready.Status && was.Message == ready.Message {
		return nil
	}
	log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "because", ready.Message)
	switch ready.Reason {
	case tenancyv1.ReasonControlledByAnother, tenancyv1.ReasonProtected, tenancyv1.ReasonReconcileFailed:
		r.Recorder.Eventf(app, nil, corev1.EventTypeWarning, ready.Reason, "Claim", "%s", ready.Message)
	}
	return nil
}

// report logs what was done to the Namespace, and records it as an event.
func (r *ApplicationNamespaceReconciler) report(ctx context.Context, app *tenancyv1.ApplicationNamespace,
	ns *corev1.Namespace, reason string) {
	log.FromContext(ctx).Info("Namespace " + ns.Name + ": " + strings.ToLower(reason) + ".")
	r.Recorder.Eventf(app, ns, corev1.EventTypeNormal, reason, "Reconcile", "Namespace %s", ns.Name)
}

// isProtected reports whether a namespace is one of Kubernetes itself. The definition of the kind
// refuses these names too, but a definition can be replaced.
func isProtected(namespace string) bool {
	return namespace == metav1.NamespaceDefault || strings.HasPrefix(namespace, "kube-")
}

func active(namespace string) metav1.Condition {
	return metav1.Condition{Type: tenancyv1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: tenancyv1.ReasonActive, Message: "Namespace " + namespace + " is controlled by this object"}
}

func notReady(reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: tenancyv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
		Message: fmt.Sprintf(format, args...)}
}
