package podstate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// byClaim is the name of the index of pods by the names of the claims that they use.
const byClaim = "spec.volumes.claims"

// IndexClaims adds the index that [Users] needs.
func IndexClaims(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Pod{}, byClaim, func(o client.Object) []string { return Claims(o.(*corev1.Pod)) })
}

// Users returns the pods that use a claim.
func Users(ctx context.Context, c client.Reader, claim client.ObjectKey) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(claim.Namespace), client.MatchingFields{byClaim: claim.Name})
	return pods.Items, err
}

// UserRequests returns a handler.MapFunc that maps a claim to those of its [Users] for which a function
// is true.
func UserRequests(c client.Reader, is func(*corev1.Pod) bool) handler.MapFunc {
	return func(ctx context.Context, claim client.Object) []reconcile.Request {
		pods, err := Users(ctx, c, client.ObjectKeyFromObject(claim))
		if err != nil {
			return nil // the cache has stopped
		}
		var requests []reconcile.Request
		for i := range pods {
			if is(&pods[i]) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods[i])})
			}
		}
		return requests
	}
}

// Claims returns the names of the claims that a pod uses, by reference or as ephemeral volumes.
func Claims(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// ClaimRequests is a handler.MapFunc that maps a pod to the claims that it uses.
func ClaimRequests(_ context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range Claims(pod.(*corev1.Pod)) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}})
	}
	return requests
}

// ReferencedClaims calls a function with each claim to which a pod refers by name, nil if it does not
// exist, until the function returns false. It does not include those of ephemeral volumes, for which
// nothing creates claims.
func ReferencedClaims(ctx context.Context, c client.Reader, pod *corev1.Pod,
	do func(name string, claim *corev1.PersistentVolumeClaim) bool) error {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name, claim := v.PersistentVolumeClaim.ClaimName, &corev1.PersistentVolumeClaim{}
		err := c.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
		if apierrors.IsNotFound(err) {
			claim = nil
		} else if err != nil {
			return err
		}
		if !do(name, claim) {
			return nil
		}
	}
	return nil
}
