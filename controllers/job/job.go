// Package job runs the pods of Jobs to completion. It creates pods, replaces failed pods, counts the pods that have
// succeeded and failed, and sets the conditions of Jobs that have succeeded or failed.
//
// An observation is a Job with its pods. The plan for the pods and the next status are pure functions of the
// observation. A reconcile executes the plan, writes the status, and then removes the finalizer of the pods that the
// status has. These changes trigger the next reconcile. The method track explains how each pod is counted exactly
// once, across restarts and failed writes. The only state in memory is the failures of counted pods, which delay the
// creation of further pods.
//
// The backoff after failures is derived from the existing pods, so only deleted pods do not count after a restart.
// TestJobCountsEachPodOnce fails writes and restarts the controller.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// kind is the kind of the owners.
var kind = batchv1.SchemeGroupVersion.WithKind("Job")

// AddToManager adds the controllers of Jobs and of the orphans among their pods.
//
//upstream:pkg/controller/job.NewController
func AddToManager(mgr manager.Manager) error {
	if err := claim.Index(context.Background(), mgr.GetFieldIndexer(), &corev1.Pod{}); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "job-controller")
	r := &reconciler{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		recorder: recorder,
		pods:     podcontrol.Control{Client: mgr.GetClient(), Recorder: recorder},
		backoffs: backoffs{of: map[types.NamespacedName]backoff{}},
	}
	err := builder.ControllerManagedBy(mgr).
		Named("job").
		For(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claim.Requests(kind.GroupKind(), r.adopters)),
			builder.WithPredicates(claim.Claimable)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
	if err != nil {
		return err
	}
	return addOrphans(mgr)
}

// reconciler reconciles Jobs.
type reconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
	pods     podcontrol.Control
	backoffs backoffs
}

// adopters returns the Jobs that would adopt a pod.
//
//upstream:pkg/controller/job.Controller.getPodJobs
func (r *reconciler) adopters(ctx context.Context, pod client.Object) []reconcile.Request {
	return claim.Adopters(ctx, r.client, &batchv1.JobList{}, pod, func(j *batchv1.Job) *metav1.LabelSelector {
		return j.Spec.Selector
	})
}

// managed reports whether this controller manages a Job.
//
//upstream:pkg/controller/job.managedByExternalController
func managed(job *batchv1.Job) bool {
	return job.Spec.ManagedBy == nil || *job.Spec.ManagedBy == batchv1.JobControllerName
}

// Reconcile creates or deletes pods of one Job, and tracks its progress in the status.
//
//upstream:pkg/controller/job.Controller.syncJob
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	start, job := time.Now(), &batchv1.Job{}
	err := r.client.Get(ctx, req.NamespacedName, job)
	if err != nil || !managed(job) || jobstate.Finished(job) != nil {
		if client.IgnoreNotFound(err) == nil {
			r.backoffs.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	pods, err := claim.Claim[*corev1.Pod](ctx, r.client, r.live, job, kind, selector, &corev1.PodList{})
	if err != nil {
		return reconcile.Result{}, claim.IgnoreOwnerDeleted(err)
	}
	defer podcontrol.Pause(ctx, start, len(pods))
	o := observe(job, pods, time.Now())
	p := o.plan(r.backoffs.update(req.NamespacedName, o))
	pods, managing := r.managePods(ctx, o, p)
	finishedCondition := p.finishedCondition
	switch {
	case managing != nil:
		finishedCondition = nil // pods may still be active
	case finishedCondition == nil:
		finishedCondition = o.completion(pods)
	}
	status, untrack := o.track(finishedCondition, pods)
	if err := r.updateStatus(ctx, job, status); err != nil {
		return reconcile.Result{}, errors.Join(managing, client.IgnoreNotFound(err))
	}
	err = podcontrol.InParallel(len(untrack), func(i int) error {
		return removeFinalizer(ctx, r.client, untrack[i], false)
	})
	return requeue.After(p.after, errors.Join(managing, err))
}

// managePods executes a plan and returns the pods that the Job then owns.
//
//upstream:pkg/controller/job.Controller.manageJob
//upstream:pkg/controller/job.Controller.deleteJobPods
//upstream:pkg/controller/job.Controller.deleteActivePods
func (r *reconciler) managePods(ctx context.Context, o *observation, p plan) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, len(o.pods))
	changed := map[types.UID]*corev1.Pod{}
	for i, pod := range o.pods {
		if pods[i] = pod; slices.Contains(p.end, pod) || slices.Contains(p.remove, pod) {
			pods[i] = pod.DeepCopy()
			changed[pod.UID] = pods[i]
		}
	}
	if len(p.create) > 0 {
		created, err := r.pods.Create(ctx, o.job, len(p.create), func(i int) *corev1.Pod {
			return newPod(o.job, p.create[i], o.delayedDeletion[p.create[i]])
		})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // no pods can be created in the namespace any more
		}
		return append(pods, created...), err
	}
	if err := podcontrol.InParallel(len(p.end), func(i int) error {
		return r.pods.Delete(ctx, o.job, changed[p.end[i].UID])
	}); err != nil {
		return pods, err
	}
	return pods, podcontrol.InParallel(len(p.remove), func(i int) error {
		pod := changed[p.remove[i].UID]
		// A pod that has terminated meanwhile must be counted.
		if err := removeFinalizer(ctx, r.client, pod, true); err != nil {
			return err
		}
		return r.pods.Delete(ctx, o.job, pod)
	})
}

// updateStatus updates the status of a Job if it has changed, and records events about its
// progress.
func (r *reconciler) updateStatus(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) error {
	if equality.Semantic.DeepEqual(status, job.Status) {
		return nil
	}
	before := job.DeepCopy()
	job.Status = status
	if err := r.client.Status().Update(ctx, job); err != nil {
		return err
	}
	for _, e := range progress(before, job) {
		r.recorder.Event(job, e.kind, e.reason, e.message)
	}
	return nil
}

// jobEvent is an event about a Job.
type jobEvent struct{ kind, reason, message string }

// progress returns the events about the change of a Job's status.
//
//upstream:pkg/controller/job.Controller.syncJob
//upstream:pkg/controller/job.Controller.recordJobFinished
func progress(before, after *batchv1.Job) []jobEvent {
	var events []jobEvent
	was := jobstate.Condition(before, batchv1.JobSuspended) != nil
	is := jobstate.Condition(after, batchv1.JobSuspended) != nil
	switch {
	case is && !was:
		events = append(events, jobEvent{corev1.EventTypeNormal, "Suspended", "Job suspended"})
	case was && !is:
		events = append(events, jobEvent{corev1.EventTypeNormal, "Resumed", "Job resumed"})
	}
	switch c := jobstate.Finished(after); {
	case c == nil:
	case c.Type == batchv1.JobFailed:
		events = append(events, jobEvent{corev1.EventTypeWarning, c.Reason, c.Message})
	default:
		if n := after.Spec.Completions; n != nil && after.Status.Succeeded > *n {
			events = append(events, jobEvent{corev1.EventTypeWarning, "TooManySucceededPods",
				"Too many succeeded pods running after completion count reached"})
		}
		events = append(events, jobEvent{corev1.EventTypeNormal, "Completed", "Job completed"})
	}
	return events
}

// removeFinalizer removes the finalizer of a pod, if there is one, and updates the pod. A pod that does not exist is no
// error. If unchanged is set, a pod that has changed since it was read is a conflict.
//
//upstream:pkg/controller/job.removeTrackingFinalizerPatch
func removeFinalizer(ctx context.Context, c client.Client, pod *corev1.Pod, unchanged bool) error {
	if !tracked(pod) {
		return nil
	}
	version := ""
	if unchanged {
		version = fmt.Sprintf(`"resourceVersion":%q,`, pod.ResourceVersion)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,%s"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		pod.UID, version, batchv1.JobTrackingFinalizer)
	err := c.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if apierrors.IsNotFound(err) {
		pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		return nil
	}
	return err
}
