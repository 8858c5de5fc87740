package volumeexpansion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/controllers/localpath"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// state returns the size of a claim, of its volume, the state of its expansion and its conditions.
func state(e controllerstest.Env, claim *corev1.PersistentVolumeClaim) string {
	e.Helper()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
	v := &corev1.PersistentVolume{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, v))
	list := []string{claim.Status.Capacity.Storage().String(), v.Spec.Capacity.Storage().String(), string(claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage])}
	for _, c := range claim.Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return strings.TrimSpace(strings.Join(list, " "))
}

// grow changes the request of a claim.
func grow(e controllerstest.Env, claim *corev1.PersistentVolumeClaim, size string) error {
	e.Helper()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	return e.Update(e.Context(), claim)
}

// TestExpansion expands claims: of a file system with a pod and without one, and of a block device.
func TestExpansion(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, Provisioner: localpath.Provisioner, AllowVolumeExpansion: ptr.To(true)}
		file, block := controllerstest.Claim("file", "1Gi", "elastic"), controllerstest.Claim("block", "1Gi", "elastic")
		fixed := controllerstest.Claim("fixed", "1Gi", "rigid")
		block.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		rigid := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid"}, Provisioner: localpath.Provisioner}
		e.CreateAll(class, rigid, file, block, fixed)
		e.WaitIdle()
		for _, c := range []*corev1.PersistentVolumeClaim{file, block, fixed} {
			if got := state(e, c); got != "1Gi 1Gi" {
				t.Fatalf("%s is %s", c.Name, got)
			}
		}
		if err := grow(e, fixed, "2Gi"); !apierrors.IsForbidden(err) {
			t.Errorf("a class without expansion: %v", err)
		}
		e.Must(grow(e, file, "2Gi"))
		e.Must(grow(e, block, "2Gi"))
		e.WaitIdle()
		if got := state(e, block); got != "2Gi 2Gi" {
			t.Errorf("the block device is %s", got)
		}
		if got := state(e, file); got != "1Gi 2Gi NodeResizePending FileSystemResizePending=True" {
			t.Errorf("without a pod, the file system is %s", got)
		}
		e.CreatePod("p", "{containers: [{name: c, image: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: file}}]}")
		e.WaitIdle()
		if got := state(e, file); got != "2Gi 2Gi" {
			t.Errorf("with a pod, the file system is %s", got)
		}
		e.Must(grow(e, file, "3Gi"))
		e.WaitIdle()
		if got := state(e, file); got != "3Gi 3Gi" || file.Status.AllocatedResources.Storage().String() != "3Gi" {
			t.Errorf("in use, the file system is %s, %v", got, file.Status.AllocatedResources)
		}
		events := &corev1.EventList{}
		e.Must(e.List(e.Context(), events, client.InNamespace(file.Namespace)))
		var reasons []string
		for _, ev := range events.Items {
			if ev.InvolvedObject.Name == "file" {
				reasons = append(reasons, ev.Reason)
			}
		}
		for _, want := range []string{"Resizing", "FileSystemResizeRequired", "FileSystemResizeSuccessful"} {
			if !slices.Contains(reasons, want) {
				t.Errorf("the events are %v, without %s", reasons, want)
			}
		}
	})
}

// TestVolumesOfOthers: the controller leaves volumes of other provisioners alone.
func TestVolumesOfOthers(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi"}, Provisioner: "csi.example.com", AllowVolumeExpansion: ptr.To(true)}
		claim, v := controllerstest.Claim("c", "1Gi", "csi"), controllerstest.Volume("v", "1Gi", "csi")
		e.CreateAll(class, v, claim)
		e.WaitIdle()
		e.Must(grow(e, claim, "2Gi"))
		e.WaitIdle()
		if got := state(e, claim); got != "1Gi 1Gi" {
			t.Errorf("the claim is %s", got)
		}
	})
}

// TestFaults grows claims step by step while writes of the controller fail and it restarts.
func TestFaults(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, Provisioner: localpath.Provisioner, AllowVolumeExpansion: ptr.To(true)}
		file, block := controllerstest.Claim("file", "1Gi", "elastic"), controllerstest.Claim("block", "1Gi", "elastic")
		block.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		e.CreateAll(class)
		for _, claim := range []*corev1.PersistentVolumeClaim{file, block} {
			bind(e, claim)
		}
		step := 0
		e.RunWithFaults("persistentvolume-expander-controller", 1, func() {
			if step++; step%10 == 0 && step <= 150 {
				size := fmt.Sprintf("%dGi", 1+step/10)
				e.Must(grow(e, file, size))
				e.Must(grow(e, block, size))
			}
		}, func() bool { return step > 150 && state(e, block) == "16Gi 16Gi" })
		if got := state(e, file); got != "1Gi 16Gi NodeResizePending FileSystemResizePending=True" {
			t.Errorf("the file system is %s", got)
		}
		if got := state(e, block); got != "16Gi 16Gi" {
			t.Errorf("the block device is %s", got)
		}
	})
}

// bind creates a claim with a volume of the provisioner.
func bind(e controllerstest.Env, claim *corev1.PersistentVolumeClaim) {
	e.Helper()
	v := controllerstest.Volume(claim.Name, "1Gi", "elastic")
	claim.Spec.VolumeName, v.Spec.VolumeMode = v.Name, claim.Spec.VolumeMode
	e.CreateAll(claim)
	v.Annotations = map[string]string{volume.ProvisionedBy: localpath.Provisioner}
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	e.CreateAll(v)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, v.Spec.Capacity
	e.Must(e.Status().Update(e.Context(), claim))
}
