package pods

import (
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The duration of the lease of a node, and the interval of its renewal.
//
//upstream:pkg/kubelet.nodeLeaseRenewIntervalFraction
const (
	leaseDuration = 40 * time.Second
	renewInterval = 10 * time.Second
)

// leases are the leases of the nodes as they were written last, so that a renewal takes no read. Its methods may be called
// from several goroutines at once.
type leases struct {
	mu   sync.Mutex
	last map[string]*coordinationv1.Lease
}

func newLeases() *leases { return &leases{last: map[string]*coordinationv1.Lease{}} }

// get returns a copy of the lease of a node, or nil.
func (l *leases) get(node string) *coordinationv1.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[node].DeepCopy()
}

func (l *leases) set(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[lease.Name] = lease
}

func (l *leases) forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, node)
}

// renew renews the lease of a node if the renewal is due, and returns the time until the next renewal.
//
//upstream:k8s.io/component-helpers/apimachinery/lease.controller.sync
//upstream:k8s.io/component-helpers/apimachinery/lease.controller.ensureLease
func (r *nodeReconciler) renew(ctx context.Context, node *corev1.Node, now time.Time) (time.Duration, error) {
	lease := r.leases.get(node.Name)
	if lease == nil {
		lease = &coordinationv1.Lease{}
		err := r.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
		switch {
		case apierrors.IsNotFound(err):
			return renewInterval, r.createLease(ctx, node, now)
		case err != nil:
			return 0, err
		}
	}
	renewed := leaseOf(node, now)
	if left := untilRenewal(lease, now); left > 0 && slices.Equal(lease.OwnerReferences, renewed.OwnerReferences) {
		return left, nil
	}
	lease.OwnerReferences, lease.Spec = renewed.OwnerReferences, renewed.Spec
	err := r.client.Update(ctx, lease)
	switch {
	case err == nil:
		r.leases.set(lease)
	case apierrors.IsNotFound(err):
		r.leases.forget(node.Name)
		return renewInterval, r.createLease(ctx, node, now)
	default:
		r.leases.forget(node.Name)
	}
	return renewInterval, err
}

// createLease creates the lease of a node.
func (r *nodeReconciler) createLease(ctx context.Context, node *corev1.Node, now time.Time) error {
	lease := leaseOf(node, now)
	err := r.client.Create(ctx, lease)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the creation of the namespace causes another reconcile
	}
	if err == nil {
		r.leases.set(lease)
	}
	return err
}

// leaseOf returns the lease of a node that is renewed now.
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

// untilRenewal returns the time until the renewal of a lease is due. A lease that was renewed by a clock that was ahead is due.
func untilRenewal(lease *coordinationv1.Lease, now time.Time) time.Duration {
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.After(now) {
		return 0
	}
	return lease.Spec.RenewTime.Add(renewInterval).Sub(now)
}
