package volumeprotection_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestPendingPodDoesNotProtectAClaim deletes a claim while one pod runs and another, created later, cannot
// be scheduled, since the claim is being deleted.
func TestPendingPodDoesNotProtectAClaim(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			}}
		user := func(name string) *corev1.Pod {
			pod := controllerstest.Pod(name, "nginx:1")
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			return pod
		}
		first, second := user("first"), user("second")
		e.CreateAll(claim, first)
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle() // else the scheduler may not know yet
		e.CreateAll(second)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		e.Must(e.Delete(e.Context(), first))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("a claim that only a pod without a node refers to: %v, %v", err, claim.Finalizers)
		}
		claim.ObjectMeta = metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}
		claim.Spec.VolumeName = ""
		e.CreateAll(claim)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(second), second))
		if second.Status.Phase != corev1.PodRunning {
			t.Errorf("the second pod, with a new claim, is %s", second.Status.Phase)
		}
	})
}

// TestVolumeProtection deletes a claim that a terminated pod uses, and then the pod; and a volume.
func TestVolumeProtection(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "other",
			AccessModes:      claim.Spec.AccessModes, Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}}
		pod := controllerstest.Pod("user", "nginx:1")
		pod.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		for _, obj := range []client.Object{claim, volume, pod} {
			e.Must(e.Create(ctx, obj))
		}
		e.WaitIdle()
		e.Must(e.Delete(ctx, claim))
		e.Must(e.Delete(ctx, volume))
		e.WaitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil || claim.DeletionTimestamp == nil {
			t.Errorf("a claim in use: %v, %v", err, claim.DeletionTimestamp)
		}
		if e.Must(e.Get(ctx, client.ObjectKeyFromObject(pod), pod)); pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the pod is %s", pod.Status.Phase)
		}
		if err := e.Get(ctx, client.ObjectKeyFromObject(volume), volume); !apierrors.IsNotFound(err) {
			t.Errorf("a volume that is not bound: %v", err)
		}
		e.Must(e.Delete(ctx, pod, client.GracePeriodSeconds(0)))
		e.WaitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("a claim that is no longer in use: %v, %v", err, claim.Finalizers)
		}
	})
}

// TestVolumeAttributesClassProtection deletes a class that a claim has, and then the claim.
func TestVolumeAttributesClassProtection(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, DriverName: "example.com",
			Parameters: map[string]string{"iops": "1"}}
		unused := class.DeepCopy()
		unused.Name = "unused"
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeAttributesClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}
		for _, obj := range []client.Object{class, unused, claim} {
			e.Must(e.Create(ctx, obj))
		}
		e.WaitIdle()
		e.Must(e.Delete(ctx, class))
		e.Must(e.Delete(ctx, unused))
		e.WaitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(class), class); err != nil || class.DeletionTimestamp == nil {
			t.Errorf("a class in use: %v, %v", err, class.DeletionTimestamp)
		}
		if err := e.Get(ctx, client.ObjectKeyFromObject(unused), unused); !apierrors.IsNotFound(err) {
			t.Errorf("a class that is not in use: %v", err)
		}
		e.Must(e.Delete(ctx, claim))
		e.WaitIdle()
		if err := e.Get(ctx, client.ObjectKeyFromObject(class), class); !apierrors.IsNotFound(err) {
			t.Errorf("a class that is no longer in use: %v, %v", err, class.Finalizers)
		}
	})
}
