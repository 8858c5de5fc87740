package persistentvolume_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// checkBindings checks that claims and volumes that are bound are so to each other and fit, and that
// no claim waits for a volume that is available and fits.
func checkBindings(e controllerstest.Env) {
	e.Helper()
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	e.Must(e.List(e.Context(), &claims))
	e.Must(e.List(e.Context(), &volumes))
	byUID, bound := map[string]*corev1.PersistentVolumeClaim{}, 0
	for i := range claims.Items {
		byUID[string(claims.Items[i].UID)] = &claims.Items[i]
	}
	fits := func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
		size := v.Spec.Capacity[corev1.ResourceStorage]
		return *c.Spec.StorageClassName == v.Spec.StorageClassName && size.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0
	}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Spec.ClaimRef == nil {
			for _, c := range byUID {
				if c.Spec.VolumeName == "" && fits(c, v) {
					e.Errorf("the claim %s waits, but the volume %s fits", c.Name, v.Name)
				}
			}
		} else if c := byUID[string(v.Spec.ClaimRef.UID)]; c == nil {
			if v.Status.Phase != corev1.VolumeReleased {
				e.Errorf("the volume %s of no claim is %s", v.Name, v.Status.Phase)
			}
		} else if bound++; c.Spec.VolumeName != v.Name || c.Status.Phase != corev1.ClaimBound || v.Status.Phase != corev1.VolumeBound || !fits(c, v) {
			e.Errorf("the volume %s is %s to the claim %s, which is %s to %s", v.Name, v.Status.Phase, c.Name, c.Status.Phase, c.Spec.VolumeName)
		}
	}
	for _, c := range byUID {
		if c.Spec.VolumeName == "" && c.Status.Phase != corev1.ClaimPending {
			e.Errorf("the claim %s without a volume is %s", c.Name, c.Status.Phase)
		} else if c.Spec.VolumeName != "" {
			bound--
		}
	}
	if bound != 0 {
		e.Errorf("%d more volumes are bound than claims", bound)
	}
}

// TestBindingModel creates and deletes claims and volumes of two classes at random.
func TestBindingModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				random := rand.New(rand.NewPCG(seed, 0))
				for step := range 120 {
					class, size := []string{"", "fast"}[random.IntN(2)], fmt.Sprint(1+random.IntN(5), "Gi")
					key := fmt.Sprint("x", random.IntN(20))
					var err error
					switch random.IntN(5) {
					case 0, 1:
						err = e.Create(e.Context(), controllerstest.Claim(key, size, class))
					case 2, 3:
						err = e.Create(e.Context(), controllerstest.Volume(key, size, class))
					default:
						err = e.Delete(e.Context(), controllerstest.Claim(key, size, class))
					}
					if err != nil && !apierrors.IsAlreadyExists(err) && client.IgnoreNotFound(err) != nil {
						t.Fatal(err)
					}
					if random.IntN(6) == 0 || step == 119 {
						e.WaitIdle()
						checkBindings(e)
					}
				}
			})
		})
	}
}
