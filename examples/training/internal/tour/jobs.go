package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/reconciles"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/internal/controller"
)

// create creates a TrainingJob, and checks what gives its Pods names in DNS.
func (w *world) create(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	w.job = newJob("one", trainingv1.ReplaceFailed)
	if err := w.Client.Create(ctx, w.job); err != nil {
		return err
	}
	pods, err := w.running(ctx, w.job, 0)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(pods))
	if want := []string{"one-ps-0", "one-worker-0", "one-worker-1"}; !slices.Equal(names, want) {
		return fmt.Errorf("there are the Pods %v, want %v", names, want)
	}
	service := &corev1.Service{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.job), service); err != nil {
		return err
	}
	for _, pod := range pods {
		if service.Spec.ClusterIP != corev1.ClusterIPNone || pod.Spec.Subdomain != service.Name ||
			pod.Spec.Hostname != pod.Name || pod.Labels[controller.JobLabel] != service.Spec.Selector[controller.JobLabel] {
			return fmt.Errorf("the Pod %s has no name in DNS: %v, %v", pod.Name, pod, service)
		}
	}
	return nil
}

func (w *world) restarted(ctx context.Context) error {
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	before, err := w.ResourceVersions(ctx, example.Namespace)
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	return w.Unchanged(ctx, example.Namespace, before)
}

func (w *world) replaced(ctx context.Context) error {
	before, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, before["one-worker-0"], "Failed"); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 1)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "one-worker-0")
}

func (w *world) deleted(ctx context.Context) error {
	before, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, before["one-worker-1"]); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, before["one-worker-1"]); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 2)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "one-worker-1")
}

// succeeded lets a worker succeed, and deletes its Pod, which nothing shows then but the status.
func (w *world) succeeded(ctx context.Context) error {
	pods, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["one-worker-0"], "Succeeded"); err != nil {
		return err
	}
	if err := w.status(ctx, w.job, func(s *trainingv1.TrainingJobStatus) string {
		if s.Succeeded != 1 || s.Active != 2 {
			return "no worker has succeeded"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, pods["one-worker-0"]); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, pods["one-worker-0"]); err != nil {
		return err
	}
	if err := w.operator.Idle(ctx); err != nil {
		return err
	}
	after, err := w.running(ctx, w.job, 2)
	if err != nil {
		return err
	}
	delete(pods, "one-worker-0")
	return sameExcept(pods, after)
}

func (w *world) complete(ctx context.Context) error {
	pods, err := w.pods(ctx, w.job)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["one-worker-1"], "Succeeded"); err != nil {
		return err
	}
	if err := w.status(ctx, w.job, func(s *trainingv1.TrainingJobStatus) string {
		if !meta.IsStatusConditionTrue(s.Conditions, trainingv1.ConditionComplete) || s.Succeeded != 2 || s.Active != 0 {
			return "it is not complete"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, pods["one-ps-0"]); err != nil {
		return err
	}
	return w.Client.Get(ctx, client.ObjectKeyFromObject(pods["one-worker-1"]), &corev1.Pod{})
}

func (w *world) restartAll(ctx context.Context) error {
	w.all = newJob("all", trainingv1.RestartAll)
	w.all.Spec.BackoffLimit = 1
	if err := w.Client.Create(ctx, w.all); err != nil {
		return err
	}
	before, err := w.running(ctx, w.all, 0)
	if err != nil {
		return err
	}
	if err := w.end(ctx, before["all-worker-0"], "Failed"); err != nil {
		return err
	}
	after, err := w.running(ctx, w.all, 1)
	if err != nil {
		return err
	}
	return sameExcept(before, after, "all-ps-0", "all-worker-0", "all-worker-1")
}

func (w *world) backoffLimit(ctx context.Context) error {
	pods, err := w.pods(ctx, w.all)
	if err != nil {
		return err
	}
	if err := w.end(ctx, pods["all-worker-1"], "Failed"); err != nil {
		return err
	}
	if err := w.status(ctx, w.all, func(s *trainingv1.TrainingJobStatus) string {
		c := meta.FindStatusCondition(s.Conditions, trainingv1.ConditionFailed)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != controller.ReasonBackoffLimit || s.Restarts != 1 {
			return "it has not failed"
		}
		return ""
	}); err != nil {
		return err
	}
	for _, name := range []string{"all-ps-0", "all-worker-0"} {
		if err := await.Gone(ctx, w.Client, pods[name]); err != nil {
			return err
		}
	}
	// The one that has failed stays, for its log.
	return w.Client.Get(ctx, client.ObjectKeyFromObject(pods["all-worker-1"]), &corev1.Pod{})
}

// nameTaken creates a Pod with the name of a worker, which is not in the cache of the operator, and a
// Service with the name of another TrainingJob. Then it frees the names.
func (w *world) nameTaken(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "pod-worker-0"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1.29"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "service"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 443}}
	for _, theirs := range []client.Object{pod, service} {
		kind, _, _ := strings.Cut(theirs.GetName(), "-")
		job := newJob(kind, trainingv1.ReplaceFailed)
		for _, obj := range []client.Object{theirs, job} {
			if err := w.Client.Create(ctx, obj); err != nil {
				return err
			}
		}
		if err := w.blocked(ctx, job, "the "+kind+" "+theirs.GetName()+" exists"); err != nil {
			return err
		}
		if err := w.Client.Delete(ctx, theirs, client.Preconditions{UID: new(theirs.GetUID())}); err != nil {
			return err
		}
		if err := await.Gone(ctx, w.Client, theirs); err != nil {
			return err
		}
		// The operator would try again in half a minute. The user does not wait.
		before := client.MergeFrom(job.DeepCopy())
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, "look", "again")
		if err := w.Client.Patch(ctx, job, before); err != nil {
			return err
		}
		if _, err := w.running(ctx, job, 0); err != nil {
			return err
		}
		if err := w.Client.Delete(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// blocked waits until a TrainingJob says that a name is taken, in its status and by an event, and
// checks that it is tried again without one.
func (w *world) blocked(ctx context.Context, job *trainingv1.TrainingJob, text string) error {
	if err := w.status(ctx, job, func(s *trainingv1.TrainingJobStatus) string {
		c := meta.FindStatusCondition(s.Conditions, trainingv1.ConditionRunning)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != controller.ReasonNameTaken ||
			!strings.Contains(strings.ToLower(c.Message), text) || c.ObservedGeneration != job.Generation {
			return "it does not say that the name is taken"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := await.Event(ctx, w.Client, example.Namespace, func(e *corev1.Event) bool {
		return e.Reason == controller.ReasonNameTaken && e.InvolvedObject.UID == job.UID
	}); err != nil {
		return err
	}
	return w.Reconciles.Await(ctx, func(all []reconciles.Reconcile) string {
		for _, r := range all {
			if r.Object == client.ObjectKeyFromObject(job) && r.RequeueAfter == "30s" {
				return ""
			}
		}
		return "it is not tried again"
	})
}

func (w *world) rejected(ctx context.Context) error {
	patch := client.MergeFrom(w.onB.DeepCopy())
	more := w.onB.DeepCopy()
	more.Spec.Workers = 4
	if err := w.Client.Patch(ctx, more, patch); !apierrors.IsInvalid(err) {
		return fmt.Errorf("to the number of workers, the API server answered %v", err)
	}
	for _, name := range []string{"1st", "a.b", strings.Repeat("a", 51)} {
		if err := w.Client.Create(ctx, newJob(name, trainingv1.ReplaceFailed)); !apierrors.IsInvalid(err) {
			return fmt.Errorf("to the name %s, the API server answered %v", name, err)
		}
	}
	return nil
}

func (w *world) collected(ctx context.Context) error {
	pods, err := w.pods(ctx, w.onA)
	if err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, w.onA); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := await.Object(ctx, w.Client, pod, func(p *corev1.Pod) string {
			if p.DeletionTimestamp == nil {
				return "the Pod is not being deleted"
			}
			return ""
		}); err != nil {
			return err
		}
		// The kubelet of its node confirms the end.
		if err := w.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: w.onA.Name}}
	return await.Gone(ctx, w.Client, service)
}
