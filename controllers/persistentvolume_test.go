package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// newVolume returns a volume of a size and a class.
func newVolume(name, size, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
	}}
}

// newClaim returns a claim of a size and a class.
func newClaim(name, size, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}

// wantBound checks the volume that a claim is bound to, or that it is not.
func (e env) wantBound(claim *corev1.PersistentVolumeClaim, volume string) {
	e.Helper()
	e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
	phase := corev1.ClaimBound
	if volume == "" {
		phase = corev1.ClaimPending
	}
	if claim.Spec.VolumeName != volume || claim.Status.Phase != phase {
		e.Errorf("the claim %s is %s, with the volume %q, not %q", claim.Name, claim.Status.Phase, claim.Spec.VolumeName, volume)
	}
}

// wantPhase checks the phase of a volume.
func (e env) wantPhase(volume string, phase corev1.PersistentVolumePhase) {
	e.Helper()
	v := &corev1.PersistentVolume{}
	e.must(e.Get(e.Context(), client.ObjectKey{Name: volume}, v))
	if v.Status.Phase != phase {
		e.Errorf("the volume %s is %s, not %s", volume, v.Status.Phase, phase)
	}
}

// TestBinding binds claims to the smallest volumes that fit, and releases these.
func TestBinding(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ctx := e.Context()
		large, small, other := newVolume("large", "5Gi", ""), newVolume("small", "2Gi", ""), newVolume("other", "1Gi", "fast")
		small.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		claim, second, third := newClaim("a", "1Gi", ""), newClaim("b", "1Gi", ""), newClaim("c", "1Gi", "")
		third.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "late"}}
		for _, obj := range []client.Object{large, small, other} {
			e.must(e.Create(ctx, obj))
		}
		e.waitIdle()
		e.wantPhase("small", corev1.VolumeAvailable)
		for i, c := range []*corev1.PersistentVolumeClaim{claim, second, third} {
			e.must(e.Create(ctx, c))
			e.waitIdle()
			e.wantBound(c, []string{"small", "large", ""}[i])
		}
		e.wantPhase("small", corev1.VolumeBound)
		e.wantPhase("other", corev1.VolumeAvailable)
		if size := claim.Status.Capacity[corev1.ResourceStorage]; size.String() != "2Gi" {
			t.Errorf("the claim has %v", claim.Status)
		}
		e.must(e.Create(ctx, newVolume("late", "1Gi", "")))
		e.waitIdle()
		e.wantBound(third, "late")

		e.must(e.Delete(ctx, claim))
		e.must(e.Delete(ctx, second))
		e.waitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(small), small); !apierrors.IsNotFound(err) {
			t.Errorf("a released volume with the policy Delete: %v, %v", err, small.Status)
		}
		e.wantPhase("large", corev1.VolumeReleased)
		again := newClaim("d", "1Gi", "")
		e.must(e.Create(ctx, again))
		e.waitIdle()
		e.wantBound(again, "")
	})
}

// TestBindingReserved binds claims and volumes that name each other.
func TestBindingReserved(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ctx := e.Context()
		reserved, named := newVolume("reserved", "9Gi", ""), newVolume("named", "9Gi", "")
		reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: web.Namespace, Name: "r"}
		claim, byName := newClaim("r", "1Gi", ""), newClaim("n", "1Gi", "")
		byName.Spec.VolumeName = "named"
		e.must(e.Create(ctx, byName))
		e.waitIdle()
		e.must(e.Get(ctx, client.ObjectKeyFromObject(byName), byName))
		if byName.Status.Phase != corev1.ClaimPending {
			t.Errorf("a claim of a volume that does not exist is %s", byName.Status.Phase)
		}
		for _, obj := range []client.Object{reserved, claim, named} {
			e.must(e.Create(ctx, obj))
		}
		e.waitIdle()
		e.wantBound(claim, "reserved")
		e.wantBound(byName, "named")
	})
}

// TestClaimDeletedWhileBound deletes a claim that a volume was reserved for, before it names that volume.
func TestClaimDeletedWhileBound(t *testing.T) {
	withController(t, "persistentvolume-binder-controller", func(env) interceptor.Funcs {
		return interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
					return context.DeadlineExceeded
				}
				return c.Update(ctx, o, opts...)
			},
		}
	}, func(e env) {
		claim := newClaim("data", "1Gi", "")
		e.create(newVolume("small", "1Gi", ""), claim)
		e.waitIdle()
		e.wantPhase("small", corev1.VolumeBound)
		claim.Finalizers = nil
		e.must(e.Update(e.Context(), claim))
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle()
		e.wantPhase("small", corev1.VolumeReleased)
	})
}

// TestBindingWaitsForConsumer binds a claim of a class that waits when a pod that uses it has a node.
func TestBindingWaitsForConsumer(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ctx := e.Context()
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode}
		elsewhere, here := newVolume("elsewhere", "1Gi", "local"), newVolume("here", "2Gi", "local")
		elsewhere.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}}}}}}}
		claim := newClaim("data", "1Gi", "local")
		for _, obj := range []client.Object{class, elsewhere, here, claim} {
			e.must(e.Create(ctx, obj))
		}
		e.waitIdle()
		e.wantBound(claim, "")
		pod := quotaPod("user", "")
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		e.must(e.Create(ctx, pod))
		e.waitIdle()
		e.wantBound(claim, "here")

		// A bound claim becomes lost if its volume is removed.
		e.must(e.Get(ctx, client.ObjectKeyFromObject(here), here))
		e.must(e.Delete(ctx, here))
		e.must(e.Patch(ctx, here, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		e.waitIdle()
		e.must(e.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimLost {
			t.Errorf("a claim without its volume is %s", claim.Status.Phase)
		}
	})
}

// TestDefaultClass gives a claim without a class the default class that is created later. A claim that
// asks for no class does not get it.
func TestDefaultClass(t *testing.T) {
	inVirtualTime(t, controllers.Options{Without: []string{"local-path-provisioner"}}, func(e env) {
		claim, none := newClaim("data", "1Gi", ""), newClaim("none", "1Gi", "")
		claim.Spec.StorageClassName = nil
		e.create(claim, none)
		e.waitIdle()
		e.wantBound(claim, "")
		if claim.Spec.StorageClassName != nil {
			t.Errorf("the claim has the class %q", *claim.Spec.StorageClassName)
		}
		for _, name := range []string{"other", "usual"} {
			e.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": fmt.Sprint(name == "usual")}}, Provisioner: "example.com/disk"})
		}
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		if c := claim.Spec.StorageClassName; c == nil || *c != "usual" {
			t.Errorf("the class is %v", c)
		}
		if p := claim.Annotations["volume.kubernetes.io/storage-provisioner"]; p != "example.com/disk" {
			t.Errorf("the provisioner is %q", p)
		}
		// An external provisioner creates a volume.
		v := newVolume("v", "1Gi", "usual")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		e.create(v)
		e.waitIdle()
		e.wantBound(claim, "v")
		e.wantBound(none, "")
	})
}

// TestBindingPreference binds claims to volumes by their access modes, and to volumes that are
// reserved for them and of another class. It says why a claim is not bound to the volume that it names.
func TestBindingPreference(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		both := newVolume("both", "1Gi", "")
		both.Spec.AccessModes = append(both.Spec.AccessModes, corev1.ReadOnlyMany)
		reserved := newVolume("reserved", "1Gi", "")
		reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: web.Namespace, Name: "usual"}
		e.create(both, newVolume("once", "5Gi", ""), reserved)
		e.waitIdle()
		claim, usual := newClaim("any", "1Gi", ""), newClaim("usual", "1Gi", "")
		usual.Spec.StorageClassName = nil // it gets the default class
		e.create(claim, usual)
		e.waitIdle()
		e.wantBound(claim, "once")
		e.wantBound(usual, "reserved")

		for name, c := range map[string]struct {
			change func(*corev1.PersistentVolumeClaim)
			want   string
		}{
			"large": {func(c *corev1.PersistentVolumeClaim) { *c = *newClaim(c.Name, "9Gi", "") },
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": requested PV is too small`},
			"fast": {func(c *corev1.PersistentVolumeClaim) { *c = *newClaim(c.Name, "1Gi", "fast") },
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": storageClassName does not match`},
			"many": {func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			},
				`Warning VolumeMismatch persistentvolume-controller: Cannot bind to requested volume "both": incompatible accessMode`},
			"late": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "once" },
				`Warning FailedBinding persistentvolume-controller: volume "once" already bound to a different claim.`},
		} {
			claim := newClaim(name, "1Gi", "")
			c.change(claim)
			if claim.Spec.VolumeName == "" {
				claim.Spec.VolumeName = "both"
			}
			e.create(claim)
			e.waitIdle()
			e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
			if claim.Status.Phase != corev1.ClaimPending {
				t.Errorf("%s is %s", name, claim.Status.Phase)
			}
			if events := e.events("PersistentVolumeClaim", name); !slices.Contains(events, c.want) {
				t.Errorf("%s: events %q", name, events)
			}
		}

		// A volume that was released is available again without its reference.
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle()
		e.wantPhase("once", corev1.VolumeReleased)
		once := newVolume("once", "5Gi", "")
		e.must(e.Patch(e.Context(), once, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"claimRef":null}}`))))
		e.waitIdle()
		late := newClaim("late", "1Gi", "")
		e.wantBound(late, "once")
	})
}
