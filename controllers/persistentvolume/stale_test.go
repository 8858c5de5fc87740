package persistentvolume_test

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestRetainedVolumeIsNotDeleted changes the reclaim policy of a volume between the controller's decision to delete it
// and the request.
func TestRetainedVolumeIsNotDeleted(t *testing.T) {
	deletes := 0
	controllerstest.WithController(t, "persistentvolume-binder-controller", func(e controllerstest.Env) interceptor.Funcs {
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
	}, func(e controllerstest.Env) {
		v := controllerstest.Volume("valuable", "1Gi", "")
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		claim := controllerstest.Claim("a", "1Gi", "")
		e.CreateAll(v)
		e.WaitIdle()
		e.CreateAll(claim)
		e.WaitIdle()
		wantBound(e, claim, "valuable")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		claim.Finalizers = nil // the protection of claims does not run
		e.Must(e.Update(e.Context(), claim))
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(v), v))
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
	controllerstest.WithController(t, "persistentvolume-binder-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.PersistentVolume); ok && behind.Load() {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		v, claim := controllerstest.Volume("restored", "1Gi", ""), controllerstest.Claim("a", "1Gi", "")
		claim.Spec.VolumeName = v.Name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		e.CreateAll(v, claim)
		e.WaitIdle()
		wantBound(e, claim, "restored")
		behind.Store(false)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(v), v))
		v.Finalizers = nil // the protection of volumes does not run
		e.Must(e.Update(e.Context(), v))
		e.Must(e.Delete(e.Context(), v))
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimLost {
			t.Errorf("a claim whose volume was deleted is %s", claim.Status.Phase)
		}
	})
}
