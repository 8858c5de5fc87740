package scenarios

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// codes is the annotation of a pod that ends: the exit codes of the pods with this annotation and these labels, in the order in
// which they end. The last one is repeated. A pod without the annotation runs until it is deleted.
const codes = "example.com/codes"

// tick is how often containers does something. One pod changes at a time, so that a controller sees it before the next one.
const tick = 2300 * time.Millisecond

// containers binds pods and does what kubelet does: it makes pods ready, and ends them after the time in the annotation lasts and
// when they are deleted.
func containers(ctx context.Context, c client.Client) error {
	ended := map[string]int{}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		list := &corev1.PodList{}
		if err := c.List(ctx, list); err != nil {
			return err
		}
		slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
			return cmp.Or(strings.Compare(a.Labels[podIndex], b.Labels[podIndex]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
		for i := range list.Items {
			changed, err := stepPod(ctx, c, &list.Items[i], ended)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if changed {
				break
			}
		}
	}
}

// podIndex is the label of pods with an index.
const podIndex = "apps.kubernetes.io/pod-index"

// stepPod does the next step of a pod, and reports whether there was one.
func stepPod(ctx context.Context, c client.Client, pod *corev1.Pod, ended map[string]int) (bool, error) {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && over:
		if len(pod.Finalizers) > 0 && *pod.DeletionGracePeriodSeconds == 0 {
			return false, nil
		}
		return true, c.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
		return true, end(ctx, c, pod, 143)
	case over || pod.DeletionTimestamp != nil:
		return false, nil
	case pod.Spec.NodeName == "":
		if err := c.SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}); err != nil {
			return true, err
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return true, err
		}
		now := metav1.Now()
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
		return true, c.Status().Update(ctx, pod)
	case pod.Annotations[codes] == "":
		return false, nil
	}
	if d, err := time.ParseDuration(pod.Annotations[lasts]); err != nil || time.Since(pod.Status.StartTime.Time) < d {
		return false, err
	}
	list := strings.Split(pod.Annotations[codes], ",")
	group := pod.Labels["job-name"] + pod.Labels["batch.kubernetes.io/job-completion-index"]
	code, err := strconv.Atoi(list[min(ended[group], len(list)-1)])
	ended[group]++
	if err != nil {
		return true, err
	}
	return true, end(ctx, c, pod, int32(code))
}

// end ends the container of a pod.
func end(ctx context.Context, c client.Client, pod *corev1.Pod, code int32) error {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}}}
	return c.Status().Update(ctx, pod)
}
