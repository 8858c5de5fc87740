// Package podcontrol creates and deletes the pods of a controller, with the events about them, like
// the PodControl of kube-controller-manager.
package podcontrol

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/client"
)

// Control creates and deletes pods, and records events about their owner.
//
//upstream:pkg/controller.RealPodControl
type Control struct {
	Client   client.Client
	Recorder record.EventRecorder
}

// FromTemplate returns a pod of a template with an owner, which is of the kind. The server generates its name.
//
//upstream:pkg/controller.GetPodFromTemplate
func FromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, kind schema.GroupVersionKind) *corev1.Pod {
	t := template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    prefix(owner.GetName()),
			Namespace:       owner.GetNamespace(),
			Labels:          t.Labels,
			Annotations:     t.Annotations,
			Finalizers:      t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: t.Spec,
	}
}

// prefix returns the prefix of the generated names of an owner's pods. It ends with a dash if it is not too
// long then.
//
//upstream:pkg/controller.getPodsPrefix
func prefix(owner string) string {
	if len(owner) == validation.DNS1123SubdomainMaxLength {
		return owner
	}
	return owner + "-"
}

// Create creates n pods in batches that double in size, so that an error that concerns all pods
// occurs once and not n times. newPod is called with 0 to n-1, from several goroutines at once. It
// returns the pods that were created, and the first error.
//
//upstream:pkg/controller.RealPodControl.createPods
//upstream:pkg/controller/replicaset.slowStartBatch
func (c Control) Create(ctx context.Context, owner client.Object, n int,
	newPod func(i int) *corev1.Pod) ([]*corev1.Pod, error) {
	var created []*corev1.Pod
	for start, batch := 0, 1; start < n; start, batch = start+batch, batch*2 {
		pods := make([]*corev1.Pod, min(batch, n-start))
		err := InParallel(len(pods), func(i int) error {
			pod := newPod(start + i)
			if err := c.Client.Create(ctx, pod); err != nil {
				if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
					c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
				}
				return err
			}
			c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", pod.Name)
			pods[i] = pod
			return nil
		})
		for _, pod := range pods {
			if pod != nil {
				created = append(created, pod)
			}
		}
		if err != nil {
			return created, err
		}
	}
	return created, nil
}

// Delete deletes a pod, unless it does not exist any more, and sets its deletion timestamp; so it
// must not be an object that is shared.
//
//upstream:pkg/controller.RealPodControl.DeletePod
func (c Control) Delete(ctx context.Context, owner client.Object, pod *corev1.Pod) error {
	err := c.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case err == nil:
		c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
	case !apierrors.IsNotFound(err):
		c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	if pod.DeletionTimestamp == nil {
		now := metav1.Now()
		pod.DeletionTimestamp = &now
	}
	return nil
}

// A reconcile of an owner of minPaused pods or more is followed by a pause of at most maxPause.
const (
	minPaused = 100
	maxPause  = 50 * time.Millisecond
)

// Pause waits at the end of a reconcile of an owner of many pods for as long as the reconcile has taken since start. The events of the
// pods in the meantime cause one reconcile. Without the pause, the owner would be reconciled for almost every pod that starts, and each
// reconcile reads all pods.
func Pause(ctx context.Context, start time.Time, pods int) {
	took := time.Since(start)
	if pods < minPaused || took <= 0 {
		return
	}
	timer := time.NewTimer(min(took, maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// InParallel calls do with 0 to n-1 concurrently, and returns the first error after all calls have
// returned.
func InParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
