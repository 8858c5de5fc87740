package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	migrationv1 "flyball.dev/examples/batch/api/v1"
)

// The reasons of the condition Complete.
const (
	ReasonSucceeded = "Succeeded"
	ReasonFailed    = "Failed"
	ReasonRunning   = "Running"
	ReasonStarting  = "Starting"
	ReasonWaiting   = "Waiting"
	ReasonSuspended = "Suspended"
	ReasonNameTaken = "NameTaken"
	// ReasonReconcileFailed is the reason if the API server refuses a request, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// state is the state of a Migration: the condition Complete, and the attempt that it is about. Zero
// stands for the attempt of the spec.
type state struct {
	status          metav1.ConditionStatus
	reason, message string
	attempt         int32
}

// incomplete returns the state of a Migration that has not succeeded.
func incomplete(reason, message string) state {
	return state{status: metav1.ConditionFalse, reason: reason, message: message}
}

// stateOf returns the state of a Migration with these Jobs. Their results are recorded. It is
// [ReasonStarting] if the Job of the attempt is to be created.
func (r *MigrationReconciler) stateOf(ctx context.Context, m *migrationv1.Migration, jobs []batchv1.Job) (state, error) {
	record := recordOf(m)
	if record.result == migrationv1.Succeeded {
		return state{metav1.ConditionTrue, ReasonSucceeded, record.message, record.attempt}, nil
	}
	// One that runs is awaited, also if it is of an earlier attempt: there are never two at once.
	for i := range jobs {
		if o := outcomeOf(&jobs[i]); o.attempt > record.attempt {
			s := incomplete(ReasonRunning, "the Job "+jobs[i].Name+" is running")
			s.attempt = o.attempt
			return s, nil
		}
	}
	if record.attempt >= m.Spec.Attempt {
		s := incomplete(ReasonFailed, record.message+"; increase spec.attempt to try again")
		s.attempt = record.attempt
		return s, nil
	}
	if m.Spec.Suspend {
		return incomplete(ReasonSuspended, "spec.suspend is set"), nil
	}
	waiting, err := r.waitingFor(ctx, m)
	if err != nil || waiting != "" {
		return incomplete(ReasonWaiting, waiting), err
	}
	return incomplete(ReasonStarting, "the Job is to be created"), nil
}

// waitingFor says which Migrations have to succeed first, and returns "" if all have.
func (r *MigrationReconciler) waitingFor(ctx context.Context, m *migrationv1.Migration) (string, error) {
	var missing []string
	for _, name := range m.Spec.After {
		other := &migrationv1.Migration{}
		err := r.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, other)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name+" does not exist")
		case err != nil:
			return "", err
		case recordOf(other).result != migrationv1.Succeeded:
			missing = append(missing, name+" has not succeeded")
		}
	}
	return strings.Join(missing, ", "), nil
}

// updateStatus updates the status if it has changed.
func (r *MigrationReconciler) updateStatus(ctx context.Context, m *migrationv1.Migration, s state) error {
	before := m.Status.DeepCopy()
	m.Status.ObservedGeneration = m.Generation
	m.Status.Attempt = cmp.Or(s.attempt, m.Spec.Attempt)
	m.Status.Result = ""
	if record := recordOf(m); s.reason == ReasonSucceeded || s.reason == ReasonFailed {
		m.Status.Result = record.result
	}
	changed := meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: migrationv1.ConditionComplete,
		Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: m.Generation})
	if equality.Semantic.DeepEqual(before, &m.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, m); err != nil {
		return err
	}
	if changed {
		log.FromContext(ctx).Info(s.reason+".", "because", s.message)
	}
	return nil
}

// jobsOf returns the Jobs of a Migration, by attempt.
func jobsOf(ctx context.Context, reader client.Reader, m *migrationv1.Migration) ([]batchv1.Job, error) {
	list := &batchv1.JobList{}
	if err := reader.List(ctx, list, client.InNamespace(m.Namespace), client.MatchingLabels{nameLabel: m.Name}); err != nil {
		return nil, fmt.Errorf("cannot list the Jobs: %w", err)
	}
	jobs := slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, m) })
	slices.SortFunc(jobs, func(a, b batchv1.Job) int { return cmp.Compare(attemptOf(&a), attemptOf(&b)) })
	return jobs, nil
}
