package persistentvolume_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// wantBound checks the volume that a claim is bound to, or that it is not.
func wantBound(e controllerstest.Env, claim *corev1.PersistentVolumeClaim, volume string) {
	e.Helper()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
	phase := corev1.ClaimBound
	if volume == "" {
		phase = corev1.ClaimPending
	}
	if claim.Spec.VolumeName != volume || claim.Status.Phase != phase {
		e.Errorf("the claim %s is %s, with the volume %q, not %q", claim.Name, claim.Status.Phase, claim.Spec.VolumeName, volume)
	}
}

// wantPhase checks the phase of a volume.
func wantPhase(e controllerstest.Env, volume string, phase corev1.PersistentVolumePhase) {
	e.Helper()
	v := &corev1.PersistentVolume{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: volume}, v))
	if v.Status.Phase != phase {
		e.Errorf("the volume %s is %s, not %s", volume, v.Status.Phase, phase)
	}
}

// TestBinding binds claims to the smallest volumes that fit, and releases these.
func TestBinding(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		large, small, other := controllerstest.Volume("large", "5Gi", ""), controllerstest.Volume("small", "2Gi", ""), controllerstest.Volume("other", "1Gi", "fast")
		small.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		claim, second, third := controllerstest.Claim("a", "1Gi", ""), controllerstest.Claim("b", "1Gi", ""), controllerstest.Claim("c", "1Gi", "")
		third.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "late"}}
		for _, obj := range []client.Object{large, small, other} {
			e.Must(e.Create(ctx, obj))
		}
		e.WaitIdle()
		wantPhase(e, "small", corev1.VolumeAvailable)
		for i, c := range []*corev1.PersistentVolumeClaim{claim, second, third} {
			e.Must(e.Create(ctx, c))
			e.WaitIdle()
			wantBound(e, c, []string{"small", "large", ""}[i])
		}
		wantPhase(e, "small", corev1.VolumeBound)
		wantPhase(e, "other", corev1.VolumeAvailable)
		if size := claim.Status.Capacity[corev1.ResourceStorage]; size.String() != "2Gi" {
			t.Errorf("the claim has %v", claim.Status)
		}
		e.Must(e.Create(ctx, controllerstest.Volume("late", "1Gi", "")))
		e.WaitIdle()
		wantBound(e, third, "late")

		e.Must(e.Delete(ctx, claim))
		e.Must(e.Delete(ctx, second))
		e.WaitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(small), small); !apierrors.IsNotFound(err) {
			t.Errorf("a released volume with the policy Delete: %v, %v", err, small.Status)
		}
		wantPhase(e, "large", corev1.VolumeReleased)
		again := controllerstest.Claim("d", "1Gi", "")
		e.Must(e.Create(ctx, again))
		e.WaitIdle()
		wantBound(e, again, "")
	})
}

// TestBindingReserved binds claims and volumes that name each other.
func TestBindingReserved(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		reserved, named := controllerstest.Volume("reserved", "9Gi", ""), controllerstest.Volume("named", "9Gi", "")
		reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: controllerstest.Web.Namespace, Name: "r"}
		claim, byName := controllerstest.Claim("r", "1Gi", ""), controllerstest.Claim("n", "1Gi", "")
		byName.Spec.VolumeName = "named"
		e.Must(e.Create(ctx, byName))
		e.WaitIdle()
		e.Must(e.Get(ctx, client.ObjectKeyFromObject(byName), byName))
		if byName.Status.Phase != corev1.ClaimPending {
			t.Errorf("a claim of a volume that does not exist is %s", byName.Status.Phase)
		}
		for _, obj := range []client.Object{reserved, claim, named} {
			e.Must(e.Create(ctx, obj))
		}
		e.WaitIdle()
		wantBound(e, claim, "reserved")
		wantBound(e, byName, "named")
	})
}

// TestClaimDeletedWhileBound deletes a claim that a volume was reserved for, before it names that volume.
func TestClaimDeletedWhileBound(t *testing.T) {
	controllerstest.WithController(t, "persistentvolume-binder-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
					return context.DeadlineExceeded
				}
				return c.Update(ctx, o, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		claim := controllerstest.Claim("data", "1Gi", "")
		e.CreateAll(controllerstest.Volume("small", "1Gi", ""), claim)
		e.WaitIdle()
		wantPhase(e, "small", corev1.VolumeBound)
		claim.Finalizers = nil
		e.Must(e.Update(e.Context(), claim))
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle()
		wantPhase(e, "small", corev1.VolumeReleased)
	})
}

// TestBindingWaitsForConsumer binds a claim of a class that waits when a pod that uses it has a node.
func TestBindingWaitsForConsumer(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode}
		elsewhere, here := controllerstest.Volume("elsewhere", "1Gi", "local"), controllerstest.Volume("here", "2Gi", "local")
		elsewhere.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}}}}}}}
		claim := controllerstest.Claim("data", "1Gi", "local")
		for _, obj := range []client.Object{class, elsewhere, here, claim} {
			e.Must(e.Create(ctx, obj))
		}
		e.WaitIdle()
		wantBound(e, claim, "")
		pod := controllerstest.Pod("user", "nginx:1")
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		e.Must(e.Create(ctx, pod))
		e.WaitIdle()
		wantBound(e, claim, "here")

		// A bound claim becomes lost if its volume is removed.
		e.Must(e.Get(ctx, client.ObjectKeyFromObject(here), here))
		e.Must(e.Delete(ctx, here))
		e.Must(e.Patch(ctx, here, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		e.WaitIdle()
		e.Must(e.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimLost {
			t.Errorf("a claim without its volume is %s", claim.Status.Phase)
		}
	})
}

// TestDefaultClass gives a claim without a class the default class that is created later. A claim that
// asks for no class does not get it.
func TestDefaultClass(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Without: []string{"local-path-provisioner"}}, func(e controllerstest.Env) {
		claim, none := controllerstest.Claim("data", "1Gi", ""), controllerstest.Claim("none", "1Gi", "")
		claim.Spec.StorageClassName = nil
		e.CreateAll(claim, none)
		e.WaitIdle()
		wantBound(e, claim, "")
		if claim.Spec.StorageClassName != nil {
			t.Errorf("the claim has the class %q", *claim.Spec.StorageClassName)
		}
		for _, name := range []string{"other", "usual"} {
			e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": fmt.Sprint(name == "usual")}}, Provisioner: "example.com/disk"})
		}
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		if c := claim.Spec.StorageClassName; c == nil || *c != "usual" {
			t.Errorf("the class is %v", c)
		}
		if p := claim.Annotations["volume.kubernetes.io/storage-provisioner"]; p != "example.com/disk" {
			t.Errorf("the provisioner is %q", p)
		}
		// An external provisioner creates a volume.
		v := controllerstest.Volume("v", "1Gi", "usual")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		e.CreateAll(v)
		e.WaitIdle()
		wantBound(e, claim, "v")
		wantBound(e, none, "")
	})
}

// TestBindingPreference binds claims to volumes by their access modes, and to volumes that are
// reserved for them and of another class. It says why a claim is not bound to the volume that it names.
func TestBindingPreference(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		both := controllerstest.Volume("both", "1Gi", "")
		both.Spec.AccessModes = append(both.Spec.AccessModes, corev1.ReadOnlyMany)
		reserved := controllerstest.Volume("reserved", "1Gi", "")
		reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: controllerstest.Web.Namespace, Name: "usual"}
		e.CreateAll(both, controllerstest.Volume("once", "5Gi", ""), reserved)
		e.WaitIdle()
		claim, usual := controllerstest.Claim("any", "1Gi", ""), controllerstest.Claim("usual", "1Gi", "")
		usual.Spec.StorageClassName = nil // it gets the default class
		e.CreateAll(claim, usual)
		e.WaitIdle()
		wantBound(e, claim, "once")
		wantBound(e, usual, "reserved")

		for name, c := range map[string]struct {
			change func(*corev1.PersistentVolumeClaim)
			want   string
		}{
			"large": {func(c *corev1.PersistentVolumeClaim) { *c = *controllerstest.Claim(c.Name, "9Gi", "") },
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": requested PV is too small`},
			"fast": {func(c *corev1.PersistentVolumeClaim) { *c = *controllerstest.Claim(c.Name, "1Gi", "fast") },
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": storageClassName does not match`},
			"many": {func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			},
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": incompatible accessMode`},
			"late": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "once" },
				`Warning FailedBinding persistentvolume-controller: volume "once" already bound to a different claim.`},
		} {
			claim := controllerstest.Claim(name, "1Gi", "")
			c.change(claim)
			if claim.Spec.VolumeName == "" {
				claim.Spec.VolumeName = "both"
			}
			e.CreateAll(claim)
			e.WaitIdle()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
			if claim.Status.Phase != corev1.ClaimPending {
				t.Errorf("%s is %s", name, claim.Status.Phase)
			}
			if events := e.Events("PersistentVolumeClaim", name); !slices.Contains(events, c.want) {
				t.Errorf("%s: events %q", name, events)
			}
		}

		// A volume that was released is available again without its reference.
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle()
		wantPhase(e, "once", corev1.VolumeReleased)
		once := controllerstest.Volume("once", "5Gi", "")
		e.Must(e.Patch(e.Context(), once, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"claimRef":null}}`))))
		e.WaitIdle()
		late := controllerstest.Claim("late", "1Gi", "")
		wantBound(e, late, "once")
	})
}
