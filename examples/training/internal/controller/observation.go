package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	trainingv1 "flyball.dev/examples/training/api/v1"
)

// observation is a TrainingJob with what exists of it.
type observation struct {
	job  *trainingv1.TrainingJob
	pods map[string]*corev1.Pod // by name
	// lost are the Pods on lost nodes, and why.
	lost map[types.UID]string
	// blocked is the error that keeps the TrainingJob from going on, or nil.
	blocked error
	// after is the time until another node has been not ready for too long, or zero.
	after time.Duration
}

// observe reads the Pods of a TrainingJob, and their nodes.
func (r *TrainingJobReconciler) observe(ctx context.Context, job *trainingv1.TrainingJob) (*observation, error) {
	o := &observation{job: job, pods: map[string]*corev1.Pod{}, lost: map[types.UID]string{}}
	list := &corev1.PodList{}
	if err := r.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{JobLabel: job.Name}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		o.pods[pod.Name] = pod
		if err := r.observeNode(ctx, o, pod); err != nil {
			return nil, err
		}
	}
	return o, r.confirmMissing(ctx, o)
}

// confirmMissing fails with a conflict if a recorded Pod exists that the cache does not have. The watch of the TrainingJob may be
// ahead of the watch of its Pods, and such a Pod would be replaced.
func (r *TrainingJobReconciler) confirmMissing(ctx context.Context, o *observation) error {
	if ended(&o.job.Status) {
		return nil
	}
	for _, recorded := range o.job.Status.Pods {
		if recorded.Phase == trainingv1.PodReplaced || recorded.Phase == trainingv1.PodSucceeded || o.pods[recorded.Name] != nil {
			continue
		}
		pod := &corev1.Pod{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.job.Namespace, Name: recorded.Name}, pod)
		if err == nil && pod.UID == recorded.UID {
			return apierrors.NewConflict(corev1.Resource("pods"), recorded.Name, errors.New("it is not in the cache yet"))
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// observeNode finds out whether a Pod is lost because of its node.
func (r *TrainingJobReconciler) observeNode(ctx context.Context, o *observation, pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" || finished(pod) {
		return nil
	}
	node := &corev1.Node{}
	key := client.ObjectKey{Name: pod.Spec.NodeName}
	err := r.Get(ctx, key, node)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, node) // the Pod may have been bound to it before the cache has it
	}
	if apierrors.IsNotFound(err) {
		o.lost[pod.UID] = fmt.Sprintf("the node %s of the Pod %s does not exist", key.Name, pod.Name)
		return nil
	}
	if err != nil {
		return err
	}
	ready, since := readiness(node)
	if ready {
		return nil
	}
	left := since.Add(o.job.Spec.NodeGracePeriod.Duration).Sub(r.Clock.Now())
	if left <= 0 {
		o.lost[pod.UID] = fmt.Sprintf("the node %s of the Pod %s is not ready", key.Name, pod.Name)
	} else if o.after == 0 || left < o.after {
		o.after = left
	}
	return nil
}

// finished reports whether the containers of a Pod have ended.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// failureOf says why a Pod has to be replaced, or returns "". The Pod that exists by the name, which
// may be nil, is not necessarily the one that is recorded.
func (o *observation) failureOf(m member, recorded trainingv1.PodStatus) string {
	pod := o.pods[recorded.Name]
	switch {
	case pod == nil || pod.UID != recorded.UID:
		return fmt.Sprintf("the Pod %s was deleted", recorded.Name)
	case !pod.DeletionTimestamp.IsZero():
		return fmt.Sprintf("the Pod %s is being deleted", recorded.Name)
	case pod.Status.Phase == corev1.PodFailed:
		return fmt.Sprintf("the Pod %s has failed", recorded.Name)
	case pod.Status.Phase == corev1.PodSucceeded && m.role == roleParameterServer:
		return fmt.Sprintf("the Pod %s has ended before the workers", recorded.Name)
	default:
		return o.lost[pod.UID]
	}
}

// phaseOf returns the phase of a Pod that has not failed.
func phaseOf(pod *corev1.Pod) trainingv1.PodPhase {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return trainingv1.PodSucceeded
	case corev1.PodRunning:
		return trainingv1.PodRunning
	default:
		return trainingv1.PodPending
	}
}
