//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package controllers_test

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestRetainedVolumeIsNotDeleted changes the reclaim policy of a volume between the controller's decision to delete it
// and the request.
func TestRetainedVolumeIsNotDeleted(t *testing.T) {
	deletes := 0
	withController(t, "persistentvolume-binder-controller", func(e env) interceptor.Funcs {
		return interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if _, ok := o.(*corev1.PersistentVolume); ok {
					if deletes++; deletes == 1 {
						retain := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
						if err := e.Patch(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}},
							client.RawPatch("application/merge-patch+json", retain)); err != nil {
							return err
						}
					}
				}
				return c.Delete(ctx, o, opts...)
			},
		}
	}, func(e env) {
		v := newVolume("valuable", "1Gi", "")
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		claim := newClaim("a", "1Gi", "")
		e.create(v)
		e.waitIdle()
		e.create(claim)
		e.waitIdle()
		e.wantBound(claim, "valuable")
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		claim.Finalizers = nil // the protection of claims does not run
		e.must(e.Update(e.Context(), claim))
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(v), v))
		if deletes == 0 || v.DeletionTimestamp != nil || v.Status.Phase != corev1.VolumeReleased {
			t.Errorf("after %d deletes the volume is %s, deleted at %v", deletes, v.Status.Phase, v.DeletionTimestamp)
		}
	})
}

// TestVolumeNotYetInTheCache restores a claim that was bound, with its volume, which the cache does not
// have at first.
func TestVolumeNotYetInTheCache(t *testing.T) {
	var behind atomic.Bool
	behind.Store(true)
	withController(t, "persistentvolume-binder-controller", func(env) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.PersistentVolume); ok && behind.Load() {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		}
	}, func(e env) {
		v, claim := newVolume("restored", "1Gi", ""), newClaim("a", "1Gi", "")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
		claim.Spec.VolumeName = v.Name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		e.create(v, claim)
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimPending {
			t.Errorf("a claim whose volume exists is %s", claim.Status.Phase)
		}
		behind.Store(false)
		v.Labels["changed"] = ""
		e.must(e.Update(e.Context(), v))
		e.waitIdle()
		e.wantBound(claim, "restored")
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(v), v))
		v.Finalizers = nil // the protection of volumes does not run
		e.must(e.Update(e.Context(), v))
		e.must(e.Delete(e.Context(), v))
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimLost {
			t.Errorf("a claim whose volume was deleted is %s", claim.Status.Phase)
		}
	})
}

// TestEndpointsOfAServiceNotYetInTheCache creates Endpoints by hand, with a Service that the cache does
// not have.
func TestEndpointsOfAServiceNotYetInTheCache(t *testing.T) {
	withController(t, "endpoints-controller", func(env) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.Service); ok {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		}
	}, func(e env) {
		svc := webService()
		svc.Spec.Selector = nil
		manual := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
			Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}}}
		e.create(manual, svc)
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(manual), manual))
		e.must(e.Delete(e.Context(), svc))
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(manual), manual); !apierrors.IsNotFound(err) {
			t.Errorf("the Endpoints of a deleted Service: %v", err)
		}
	})
}

// TestSliceDeletedMeanwhile updates a slice that does not exist any more.
func TestSliceDeletedMeanwhile(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "s"},
			AddressType: discoveryv1.AddressTypeIPv4}
		e.create(slice)
		e.must(e.Delete(e.Context(), slice))
		changes := endpoints.Changes{Update: []*discoveryv1.EndpointSlice{slice}}
		e.must(changes.Apply(e.Context(), e))
	})
}

// TestPendingPodDoesNotProtectAClaim deletes a claim while one pod runs and another, created later, cannot
// be scheduled, since the claim is being deleted.
func TestPendingPodDoesNotProtectAClaim(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			}}
		user := func(name string) *corev1.Pod {
			pod := quotaPod(name, "")
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			return pod
		}
		first, second := user("first"), user("second")
		e.create(claim, first)
		e.waitIdle()
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle() // else the scheduler may not know yet
		e.create(second)
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		e.must(e.Delete(e.Context(), first))
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("a claim that only a pod without a node refers to: %v, %v", err, claim.Finalizers)
		}
		claim.ObjectMeta = metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}
		claim.Spec.VolumeName = ""
		e.create(claim)
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(second), second))
		if second.Status.Phase != corev1.PodRunning {
			t.Errorf("the second pod, with a new claim, is %s", second.Status.Phase)
		}
	})
}
