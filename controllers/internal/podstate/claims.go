package podstate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// UserRequests returns a handler.MapFunc that maps a claim to its [Users], if is reports true for them.
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
//
//upstream:pkg/controller/volume/common.PodPVCIndexFunc
func Claims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// claimName returns the name of the claim of a volume of a pod, or "".
func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return EphemeralClaim(pod, v)
	}
	return ""
}

// EphemeralClaim returns the name of the claim of an ephemeral volume.
//
//upstream:k8s.io/component-helpers/storage/ephemeral.VolumeClaimName
func EphemeralClaim(pod *corev1.Pod, v *corev1.Volume) string { return pod.Name + "-" + v.Name }

// ForeignClaim returns an error if the claim of an ephemeral volume of a pod was not created for the pod.
//
//upstream:k8s.io/component-helpers/storage/ephemeral.VolumeIsForPod
func ForeignClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	if metav1.IsControlledBy(claim, pod) {
		return nil
	}
	return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
}

// ClaimRequests is a handler.MapFunc that maps a pod to the claims that it uses.
func ClaimRequests(_ context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range Claims(pod.(*corev1.Pod)) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}})
	}
	return requests
}

// UsedClaim is a claim that a pod uses.
type UsedClaim struct {
	Name      string
	Ephemeral bool // the volume is ephemeral
	// Object is the claim, which must not be changed, or nil if it does not exist.
	Object *corev1.PersistentVolumeClaim
}

// UsedClaims calls a function with each claim that a pod uses, until the function returns false.
func UsedClaims(ctx context.Context, c client.Reader, pod *corev1.Pod, do func(UsedClaim) bool) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		used := UsedClaim{Name: claimName(pod, v), Ephemeral: v.Ephemeral != nil, Object: &corev1.PersistentVolumeClaim{}}
		if used.Name == "" {
			continue
		}
		err := c.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: used.Name}, used.Object)
		if apierrors.IsNotFound(err) {
			used.Object = nil
		} else if err != nil {
			return err
		}
		if !do(used) {
			return nil
		}
	}
	return nil
}
