// Package controller has the controller of FeatureFlags, which is driven by events of the cluster and
// by time: the flag service tells nobody when flags change.
package controller

import (
	"context"
	"errors"
	"fmt"

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
	flagsv1 "flyball.dev/examples/hybrid/api/v1"
	"flyball.dev/examples/hybrid/internal/flagservice"
)

// RevisionAnnotation of a ConfigMap has the revision of its flags at the flag service.
const RevisionAnnotation = "flags.example.com/revision"

// The reasons of the condition Synced.
const (
	ReasonUpToDate    = "UpToDate"
	ReasonUnavailable = "FlagServiceUnavailable"
	ReasonNoProject   = "NoSuchProject"
	ReasonNameTaken   = "NameTaken"
	// ReasonReconcileFailed is the reason if the API server refuses the ConfigMap, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// errNameTaken is the error if there is a ConfigMap of that name that belongs to somebody else.
var errNameTaken = errors.New("there is a ConfigMap of this name that the FeatureFlags do not control")

// FeatureFlagsReconciler copies flags from the flag service to ConfigMaps.
type FeatureFlagsReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Service  *flagservice.Client
}

// +kubebuilder:rbac:groups=flags.example.com,resources=featureflags,verbs=get;list;watch
// +kubebuilder:rbac:groups=flags.example.com,resources=featureflags/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=flags.example.com,resources=featureflags/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *FeatureFlagsReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&flagsv1.FeatureFlags{}).
		Owns(&corev1.ConfigMap{}).
		Named("hybrid").
		Complete(r)
}

// Reconcile brings the ConfigMap of one FeatureFlags up to date, and its status. It does not know
// whether an event or the time has triggered it, and does the same for both: it looks at the flag
// service and at the ConfigMap, and writes what differs.
func (r *FeatureFlagsReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	flags := &flagsv1.FeatureFlags{}
	if err := r.Get(ctx, req.NamespacedName, flags); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !flags.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the ConfigMap is garbage collected
	}
	before := flags.Status.DeepCopy()
	synced, err := r.sync(ctx, flags)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err // the cache was behind: the next reconcile sees the object
	}
	if err != nil {
		synced = notSynced(ReasonReconcileFailed, err) // it is retried with backoff
	}
	if err := errors.Join(err, r.updateStatus(ctx, flags, before, synced)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: flags.Spec.Interval.Duration}, nil
}

// sync copies the flags to the ConfigMap and returns the condition Synced. What only time can change
// is a condition and no error: a retry with backoff would look at the flag service more often than
// the interval allows. The flags of a project that cannot be read stay as they are.
func (r *FeatureFlagsReconciler) sync(ctx context.Context, flags *flagsv1.FeatureFlags) (metav1.Condition, error) {
	if err := r.observe(ctx, flags); err != nil {
		return metav1.Condition{}, err
	}
	current, err := r.Service.Get(ctx, flags.Spec.Project)
	if errors.Is(err, flagservice.ErrNoProject) {
		return notSynced(ReasonNoProject, fmt.Errorf("%w: %s", err, flags.Spec.Project)), nil
	}
	if err != nil {
		return notSynced(ReasonUnavailable, err), nil
	}
	err = r.write(ctx, flags, current)
	if errors.Is(err, errNameTaken) {
		return notSynced(ReasonNameTaken, err), nil
	}
	if err != nil {
		return metav1.Condition{}, err
	}
	flags.Status.Revision = current.Revision
	return metav1.Condition{Type: flagsv1.ConditionSynced, Status: metav1.ConditionTrue, Reason: ReasonUpToDate,
		Message: "the ConfigMap has the flags of revision " + current.Revision}, nil
}

// observe sets the revision in the status to the revision of the flags in the ConfigMap, whatever becomes of
// them next.
func (r *FeatureFlagsReconciler) observe(ctx context.Context, flags *flagsv1.FeatureFlags) error {
	cm := &corev1.ConfigMap{}
	err := r.Get(ctx, client.ObjectKeyFromObject(flags), cm)
	flags.Status.Revision = ""
	if err == nil && metav1.IsControlledBy(cm, flags) {
		flags.Status.Revision = cm.Annotations[RevisionAnnotation]
	}
	return client.IgnoreNotFound(err)
}

// notSynced returns the condition if the flags could not be copied.
func notSynced(reason string, err error) metav1.Condition {
	return metav1.Condition{Type: flagsv1.ConditionSynced, Status: metav1.ConditionFalse, Reason: reason,
		Message: err.Error()}
}

// write creates or updates the ConfigMap, if it differs.
func (r *FeatureFlagsReconciler) write(ctx context.Context, flags *flagsv1.FeatureFlags, wanted *flagservice.Flags) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: flags.Namespace, Name: flags.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		if cm.UID != "" && !metav1.IsControlledBy(cm, flags) {
			return errNameTaken
		}
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, RevisionAnnotation, wanted.Revision)
		cm.Data = wanted.Values
		return ctrl.SetControllerReference(flags, cm, r.Scheme)
	})
	if err != nil || result == controllerutil.OperationResultNone {
		return err
	}
	log.FromContext(ctx).Info("ConfigMap "+string(result)+".", "revision", wanted.Revision)
	r.Recorder.Eventf(flags, cm, corev1.EventTypeNormal, "Synced", "Sync", "ConfigMap %s: %s to revision %s", cm.Name,
		result, wanted.Revision)
	return nil
}

// updateStatus updates the status if it differs from what it was before. It has no time of the last
// look, since that would be a write at each.
func (r *FeatureFlagsReconciler) updateStatus(ctx context.Context, flags *flagsv1.FeatureFlags,
	before *flagsv1.FeatureFlagsStatus, synced metav1.Condition) error {
	flags.Status.ObservedGeneration = flags.Generation
	synced.ObservedGeneration = flags.Generation
	meta.SetStatusCondition(&flags.Status.Conditions, synced)
	if equality.Semantic.DeepEqual(before, &flags.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, flags); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Synced is "+string(synced.Status)+".", "because", synced.Message)
	return nil
}
