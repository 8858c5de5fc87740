package pods

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The duration of the node's lease, and the interval of its renewal.
//
//upstream:pkg/kubelet.nodeLeaseRenewIntervalFraction
const (
	leaseDuration = 40 * time.Second
	renewInterval = 10 * time.Second
)

// renew renews the node's lease if the renewal is due, and returns the time until the next renewal.
//
//upstream:k8s.io/component-helpers/apimachinery/lease.controller.sync
//upstream:k8s.io/component-helpers/apimachinery/lease.controller.ensureLease
func (r *nodeReconciler) renew(ctx context.Context, node *corev1.Node, now time.Time) (time.Duration, error) {
	lease := &coordinationv1.Lease{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	switch {
	case apierrors.IsNotFound(err):
		err := r.client.Create(ctx, leaseOf(node, now))
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // the creation of the namespace causes another reconcile
		}
		return renewInterval, err
	case err != nil:
		return 0, err
	}
	renewed := leaseOf(node, now)
	if left := untilRenewal(lease, now); left > 0 && slices.Equal(lease.OwnerReferences, renewed.OwnerReferences) {
		return left, nil
	}
	lease.OwnerReferences, lease.Spec = renewed.OwnerReferences, renewed.Spec
	return renewInterval, r.client.Update(ctx, lease)
}

// leaseOf returns the node's lease when it is renewed now.
//
//upstream:k8s.io/component-helpers/apimachinery/lease.controller.newLease
//upstream:pkg/kubelet/util.SetNodeOwnerFunc
func leaseOf(node *corev1.Node, now time.Time) *coordinationv1.Lease {
	seconds, at := int32(leaseDuration/time.Second), metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

// untilRenewal returns the time until the renewal of a lease is due.
func untilRenewal(lease *coordinationv1.Lease, now time.Time) time.Duration {
	if lease.Spec.RenewTime == nil {
		return 0
	}
	return min(lease.Spec.RenewTime.Add(renewInterval).Sub(now), renewInterval)
}
