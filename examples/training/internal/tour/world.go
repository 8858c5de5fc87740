package tour

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/internal/controller"
)

// The nodes, and the label by which TrainingJobs select them.
const (
	nodeA, nodeB = "a", "b"
	pool         = "pool"
)

// world is the state that the steps share.
type world struct {
	*example.World
	operator   *example.Operator
	job        *trainingv1.TrainingJob // with ReplaceFailed
	all        *trainingv1.TrainingJob // with RestartAll
	onA, onB   *trainingv1.TrainingJob
	reconciles int // that had ended at the start of a step
}

// newJob returns a TrainingJob with 2 workers.
func newJob(name string, policy trainingv1.RestartPolicy) *trainingv1.TrainingJob {
	return &trainingv1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec: trainingv1.TrainingJobSpec{
			Image: "example.com/train:1", Workers: 2, ParameterServers: 1, RestartPolicy: policy, BackoffLimit: 3,
			NodeGracePeriod: metav1.Duration{Duration: time.Hour},
		},
	}
}

// status waits until a condition of the status is true. The condition returns "" if it is.
func (w *world) status(ctx context.Context, job *trainingv1.TrainingJob,
	condition func(*trainingv1.TrainingJobStatus) string) error {
	return await.Object(ctx, w.Client, job, func(j *trainingv1.TrainingJob) string {
		if missing := condition(&j.Status); missing != "" {
			return fmt.Sprintf("%s, the status is %+v", missing, j.Status)
		}
		return ""
	})
}

// running waits until all Pods of a TrainingJob run after so many restarts, and returns them by name.
func (w *world) running(ctx context.Context, job *trainingv1.TrainingJob, restarts int32) (map[string]*corev1.Pod, error) {
	err := w.status(ctx, job, func(s *trainingv1.TrainingJobStatus) string {
		if s.Restarts != restarts || !meta.IsStatusConditionTrue(s.Conditions, trainingv1.ConditionRunning) {
			return fmt.Sprintf("it does not run after %d restarts", restarts)
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	return w.pods(ctx, job)
}

// pods returns the Pods of a TrainingJob by name.
func (w *world) pods(ctx context.Context, job *trainingv1.TrainingJob) (map[string]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := w.Client.List(ctx, list, client.InNamespace(example.Namespace),
		client.MatchingLabels{controller.JobLabel: job.Name}); err != nil {
		return nil, err
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, nil
}

// sameExcept checks that exactly the named Pods have been replaced.
func sameExcept(before, after map[string]*corev1.Pod, names ...string) error {
	if len(before) != len(after) {
		return fmt.Errorf("there are %d Pods, and were %d", len(after), len(before))
	}
	for name, pod := range before {
		if replaced := after[name] == nil || after[name].UID != pod.UID; replaced != slices.Contains(names, name) {
			return fmt.Errorf("the Pod %s is replaced: %t", name, replaced)
		}
	}
	return nil
}

// end makes the container of a Pod end with an outcome.
func (w *world) end(ctx context.Context, pod *corev1.Pod, outcome string) error {
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "flyball.dev/outcome", outcome)
	return w.Client.Patch(ctx, pod, before)
}

// start starts the operator, and waits until it has nothing to do.
func (w *world) start(ctx context.Context) (err error) {
	w.operator, err = w.StartIdle(ctx)
	return err
}
