// Package pods lets pods live without machines: it schedules them to one node that exists in name
// only, lets them start, become ready and end there, and completes their deletion.
//
// What a pod does next follows from the pod alone, so a restart changes nothing. [Options] and
// [OutcomeAnnotation] direct it.
package pods

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// network is where the pods have their addresses, as clusters commonly have it.
var network = netip.MustParsePrefix("10.244.0.0/16")

// AddToManager adds the pods' life and the node that they live on.
func AddToManager(mgr manager.Manager, o Options) error {
	r := &reconciler{client: mgr.GetClient(), options: o, addresses: newAddresses(network)}
	err := builder.ControllerManagedBy(mgr).
		Named("pods").
		For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return err
	}
	return addNode(mgr)
}

type reconciler struct {
	client    client.Client
	options   Options
	addresses *addresses

	mu      sync.Mutex
	counted bool // the addresses of the pods that were there at the start are known
}

// Reconcile lets one pod do what is next in its life.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.addresses.free(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := time.Now()
	do, after := next(pod, r.options, now)
	var err error
	switch do {
	case bind:
		err = r.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: NodeName},
		})
	case report:
		err = r.report(ctx, pod, now)
	case remove:
		err = r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	if apierrors.IsConflict(err) && do == bind {
		err = nil // somebody else has bound it
	}
	return reconcile.Result{RequeueAfter: after}, client.IgnoreNotFound(err)
}

func (r *reconciler) report(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	ip, err := r.address(ctx, pod)
	if err != nil {
		return err
	}
	up, _ := hasStarted(pod, r.options, now)
	pod.Status = statusOf(pod, up, ip, now)
	return r.client.Status().Update(ctx, pod)
}

func (r *reconciler) address(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.HostNetwork {
		return NodeIP, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.counted {
		all := &corev1.PodList{}
		if err := r.client.List(ctx, all); err != nil {
			return "", err
		}
		for i := range all.Items {
			r.addresses.keep(client.ObjectKeyFromObject(&all.Items[i]), all.Items[i].Status.PodIP)
		}
		r.counted = true
	}
	return r.addresses.give(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}
