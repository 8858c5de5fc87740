package controller

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	migrationv1 "flyball.dev/examples/batch/api/v1"
)

// The labels of the Jobs: the name of the Migration, and the attempt.
const (
	nameLabel    = "batch.example.com/migration"
	attemptLabel = "batch.example.com/attempt"
)

// The annotations of a Migration that record how the last attempt that has ended did so. They are
// never removed: without them, the Migration is executed again.
const (
	AttemptAnnotation = "batch.example.com/attempt"
	ResultAnnotation  = "batch.example.com/result"
	MessageAnnotation = "batch.example.com/message"
)

// outcome is how an attempt has ended. The result is "" if it has not.
type outcome struct {
	attempt int32
	result  migrationv1.Result
	message string
}

// recordOf returns the outcome that is recorded on a Migration, of attempt 0 if there is none.
func recordOf(m *migrationv1.Migration) outcome {
	return outcome{
		attempt: parseAttempt(m.Annotations[AttemptAnnotation]),
		result:  migrationv1.Result(m.Annotations[ResultAnnotation]),
		message: m.Annotations[MessageAnnotation],
	}
}

// writeTo records the outcome on a Migration.
func (o outcome) writeTo(m *migrationv1.Migration) {
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, AttemptAnnotation, strconv.Itoa(int(o.attempt)))
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, ResultAnnotation, string(o.result))
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, MessageAnnotation, o.message)
}

// attemptOf returns the attempt that a Job executes.
func attemptOf(job *batchv1.Job) int32 { return parseAttempt(job.Labels[attemptLabel]) }

// parseAttempt returns the number of an attempt, or 0 if it is none.
func parseAttempt(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// outcomeOf returns the outcome of a Job. One that is deleted before it has ended has failed: what of
// it was done, nobody knows.
func outcomeOf(job *batchv1.Job) outcome {
	o := outcome{attempt: attemptOf(job)}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			o.result, o.message = migrationv1.Succeeded, fmt.Sprintf("the Job %s has succeeded", job.Name)
			return o
		case c.Type == batchv1.JobFailed:
			o.result, o.message = migrationv1.Failed, fmt.Sprintf("the Job %s has failed: %s", job.Name, c.Message)
			return o
		}
	}
	if wasDeleted(*job) {
		o.result, o.message = migrationv1.Failed, fmt.Sprintf("the Job %s was deleted before it ended", job.Name)
	}
	return o
}

// wasDeleted reports whether a Job is being deleted.
func wasDeleted(job batchv1.Job) bool { return !job.DeletionTimestamp.IsZero() }

// newJob returns the Job of the present attempt of a Migration. It does not retry by itself.
func newJob(m *migrationv1.Migration) *batchv1.Job {
	labels := map[string]string{nameLabel: m.Name, attemptLabel: strconv.Itoa(int(m.Spec.Attempt))}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  m.Namespace,
			Name:       fmt.Sprintf("%s-%d", m.Name, m.Spec.Attempt),
			Labels:     labels,
			Finalizers: []string{Finalizer},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			TTLSecondsAfterFinished: m.Spec.TTLSecondsAfterFinished,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: m.Spec.PodAnnotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "migration", Image: m.Spec.Image, Command: m.Spec.Command}},
				},
			},
		},
	}
}
