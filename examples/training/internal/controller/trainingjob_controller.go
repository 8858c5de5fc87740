// Package controller has the controller of TrainingJobs. It creates the Pods of the workers and of
// the parameter servers itself, because it knows better than a Job or a StatefulSet what it means if
// one of them fails.
//
// The next status follows from the present one and from the Pods that exist, and the actions for
// the Pods follow from that status. It is written first: a Pod that has failed is deleted, and
// nothing but the status can say afterwards that it was there. As the status has the UID of each Pod,
// none is counted twice, wherever the operator is interrupted.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	trainingv1 "flyball.dev/examples/training/api/v1"
)

// TrainingJobReconciler reconciles the Pods of TrainingJobs.
type TrainingJobReconciler struct {
	client.Client
	// Live reads from the API server and not from a cache.
	Live     client.Reader
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// +kubebuilder:rbac:groups=training.example.com,resources=trainingjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=training.example.com,resources=trainingjobs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=training.example.com,resources=trainingjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager. A TrainingJob with many Pods does not hold up the
// others.
func (r *TrainingJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := indexPodsByNode(mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&trainingv1.TrainingJob{}).
		Owns(&corev1.Pod{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.findJobsForNode),
			builder.WithPredicates(readinessChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Named("training").
		Complete(r)
}

// Reconcile takes one TrainingJob a step further.
func (r *TrainingJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &trainingv1.TrainingJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the Pods and the Service are garbage collected
	}
	after, err := r.advance(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// nameTakenInterval is how often an object is tried to be created if somebody else's has its name.
const nameTakenInterval = 30 * time.Second

// nameTakenError is the error if a name is taken by an object that the TrainingJob does not control.
type nameTakenError struct{ kind, name string }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("the %s %s exists and is not controlled by the TrainingJob", e.kind, e.name)
}

// advance brings the Service, the status and the Pods up to date. It returns the time until it has to
// be called again without an event, or zero.
func (r *TrainingJobReconciler) advance(ctx context.Context, job *trainingv1.TrainingJob) (time.Duration, error) {
	o, err := r.observe(ctx, job)
	if err != nil {
		return 0, err
	}
	// Without its name in DNS no Pod is created, but those that exist are still observed.
	if o.blocked = r.reconcileService(ctx, job); isStale(o.blocked) {
		return 0, o.blocked
	}
	p, err := r.updateStatus(ctx, o)
	if err != nil {
		return 0, err
	}
	if err := r.execute(ctx, job, p); isStale(err) {
		return 0, err
	} else if err != nil {
		o.blocked = err
		if _, err := r.updateStatus(ctx, o); err != nil {
			return 0, err
		}
	}
	if taken := (*nameTakenError)(nil); errors.As(o.blocked, &taken) {
		// A retry with backoff would not help, and no event says that the name is free.
		return soonest(o.after, nameTakenInterval), nil
	}
	return o.after, o.blocked
}

// isStale reports whether an error says only that the cache was behind. The next reconcile sees the
// objects.
func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// soonest returns the shorter of two times. The first one may be zero for never.
func soonest(after, interval time.Duration) time.Duration {
	if after == 0 {
		return interval
	}
	return min(after, interval)
}

// jobEvent is an event about a TrainingJob.
type jobEvent struct{ kind, reason, message string }

// updateStatus updates the status if it has changed, and then records what has happened. It returns
// the actions for the Pods.
func (r *TrainingJobReconciler) updateStatus(ctx context.Context, o *observation) (plan, error) {
	status, events := o.nextStatus()
	if equality.Semantic.DeepEqual(&o.job.Status, status) {
		return o.plan(status), nil
	}
	o.job.Status = *status
	if err := r.Status().Update(ctx, o.job); err != nil {
		return plan{}, err
	}
	for _, e := range events {
		log.FromContext(ctx).Info(e.reason+".", "because", e.message)
		r.Recorder.Eventf(o.job, nil, e.kind, e.reason, "Reconcile", "%s", e.message)
	}
	return o.plan(status), nil
}

// execute deletes and creates Pods. A Pod is deleted only as it was seen: it may have succeeded since, and its logs would be lost.
func (r *TrainingJobReconciler) execute(ctx context.Context, job *trainingv1.TrainingJob, p plan) error {
	for _, d := range p.remove {
		options := []client.DeleteOption{client.Preconditions{UID: &d.pod.UID, ResourceVersion: &d.pod.ResourceVersion}}
		if d.force {
			options = append(options, client.GracePeriodSeconds(0))
		}
		if err := r.Delete(ctx, d.pod, options...); client.IgnoreNotFound(err) != nil {
			return err
		}
		log.FromContext(ctx).Info("Pod deleted.", "pod", d.pod.Name)
	}
	for _, m := range p.create {
		if err := r.create(ctx, job, m); err != nil {
			return err
		}
	}
	return nil
}

// create creates a Pod. If one of that name exists already, create asks the API server for its owner:
// it may be one that the cache does not have yet, and then its event triggers the next reconcile.
func (r *TrainingJobReconciler) create(ctx context.Context, job *trainingv1.TrainingJob, m member) error {
	pod := newPod(job, m)
	if err := ctrl.SetControllerReference(job, pod, r.Scheme); err != nil {
		return err
	}
	err := r.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		return r.checkName(ctx, job, "Pod", pod.Name, &corev1.Pod{})
	}
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("Pod created.", "pod", pod.Name)
	return nil
}

// checkName asks the API server for an object, which it reads into obj, and returns a nameTakenError if
// the TrainingJob does not control it.
func (r *TrainingJobReconciler) checkName(ctx context.Context, job *trainingv1.TrainingJob, kind, name string, obj client.Object) error {
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}, obj)
	if err == nil && !metav1.IsControlledBy(obj, job) {
		return &nameTakenError{kind, name}
	}
	return client.IgnoreNotFound(err)
}

// reconcileService creates the headless Service that gives the Pods their names in DNS, or restores
// it.
func (r *TrainingJobReconciler) reconcileService(ctx context.Context, job *trainingv1.TrainingJob) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		if service.UID != "" && !metav1.IsControlledBy(service, job) {
			if err := r.checkName(ctx, job, "Service", service.Name, &corev1.Service{}); err != nil {
				return err
			}
			return apierrors.NewConflict(corev1.Resource("services"), service.Name, errors.New("it was deleted since it was read"))
		}
		service.Spec.Selector = map[string]string{JobLabel: job.Name}
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.PublishNotReadyAddresses = true // they look for each other before they are ready
		return ctrl.SetControllerReference(job, service, r.Scheme)
	})
	return err
}
