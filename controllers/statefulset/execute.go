package statefulset

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/ctrl/client"
)

// act executes an action and records its events.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.CreateStatefulPod
//upstream:pkg/controller/statefulset.StatefulPodControl.UpdateStatefulPod
func (r *reconciler) act(ctx context.Context, set *appsv1.StatefulSet, a *action) error {
	if len(a.create) > 0 { // the garbage collector deletes the claims of a StatefulSet that is gone
		if err := claim.CheckOwner(ctx, r.live, set, kind); err != nil {
			return err
		}
	}
	if err := r.createClaims(ctx, set, a); err != nil {
		if !a.pending {
			r.recordPod(set, a.verb, a.pod, err)
		}
		return err
	}
	if a.verb == update {
		if err := r.updateClaims(ctx, set, a); err != nil {
			return err
		}
		return r.change(ctx, set, a)
	}
	err := r.change(ctx, set, a)
	if apierrors.IsAlreadyExists(err) {
		return err // it is not a pod of the StatefulSet
	}
	return cmp.Or(r.updateClaims(ctx, set, a), err)
}

// updateClaims updates the owners of the claims of a pod.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.UpdatePodClaimForRetentionPolicy
func (r *reconciler) updateClaims(ctx context.Context, set *appsv1.StatefulSet, a *action) error {
	for _, name := range a.conflicts {
		r.recorder.Eventf(set, corev1.EventTypeWarning, "ConflictingController", "PersistentVolumeClaim %s has a conflicting "+
			"OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", name)
	}
	for _, c := range a.update {
		if err := client.IgnoreNotFound(r.client.Update(ctx, c)); err != nil {
			err = fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", c.Name, err)
			r.recordPod(set, update, a.pod, err)
			return err
		}
	}
	return nil
}

// change creates, updates or deletes the pod of an action.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.CreateStatefulPod
//upstream:pkg/controller/statefulset.StatefulPodControl.UpdateStatefulPod
//upstream:pkg/controller/statefulset.StatefulPodControl.DeleteStatefulPod
func (r *reconciler) change(ctx context.Context, set *appsv1.StatefulSet, a *action) (err error) {
	switch a.verb {
	case nothing:
		return nil
	case create:
		if err = r.client.Create(ctx, a.pod); apierrors.IsAlreadyExists(err) {
			return err
		}
	case update:
		err = r.client.Update(ctx, a.pod)
	case remove:
		err = client.IgnoreNotFound(r.client.Delete(ctx, a.pod, client.Preconditions{UID: &a.pod.UID}))
	}
	r.recordPod(set, a.verb, a.pod, err)
	return err
}

// createClaims creates the missing claims of a pod. It returns an error if claims are being deleted.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.createPersistentVolumeClaims
func (r *reconciler) createClaims(ctx context.Context, set *appsv1.StatefulSet, a *action) error {
	var errs []error
	for _, c := range a.create {
		err := r.client.Create(ctx, c)
		switch {
		case err == nil:
			r.recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate",
				"Create Claim %s Pod %s in StatefulSet %s success", c.Name, a.pod.Name, set.Name)
			continue
		case !apierrors.IsAlreadyExists(err):
			r.recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate",
				"Create Claim %s for Pod %s in StatefulSet %s failed error: %v", c.Name, a.pod.Name, set.Name, err)
		}
		errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", c.Name, err))
	}
	for _, name := range a.deleting {
		errs = append(errs, fmt.Errorf("pvc %s is being deleted", name))
	}
	return utilerrors.NewAggregate(errs)
}

// recordPod records an event for an action on a pod, or its failure.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.recordPodEvent
func (r *reconciler) recordPod(set *appsv1.StatefulSet, verb verb, pod *corev1.Pod, err error) {
	switch {
	case err == nil:
		r.recorder.Eventf(set, corev1.EventTypeNormal, "Successful"+string(verb), "%s Pod %s in StatefulSet %s successful",
			verb, pod.Name, set.Name)
	case apierrors.IsConflict(err): // it is tried again
	default:
		r.recorder.Eventf(set, corev1.EventTypeWarning, "Failed"+string(verb), "%s Pod %s in StatefulSet %s failed error: %v",
			verb, pod.Name, set.Name, err)
	}
}
