// Package volume has the functions that the controllers of volumes and claims and the scheduler share.
package volume

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// The annotations of claims that ask for a volume: for which provisioner, and on which node.
const (
	//upstream:k8s.io/component-helpers/storage/volume.AnnStorageProvisioner
	StorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	//upstream:k8s.io/component-helpers/storage/volume.AnnSelectedNode
	SelectedNode = "volume.kubernetes.io/selected-node"
)

// The annotations of bound objects.
const (
	//upstream:k8s.io/component-helpers/storage/volume.AnnBindCompleted
	BindCompleted = "pv.kubernetes.io/bind-completed"
	//upstream:k8s.io/component-helpers/storage/volume.AnnBoundByController
	BoundByController = "pv.kubernetes.io/bound-by-controller"
)

// ProvisionedBy is the annotation of volumes with their provisioner.
//
//upstream:k8s.io/component-helpers/storage/volume.AnnDynamicallyProvisioned
const ProvisionedBy = "pv.kubernetes.io/provisioned-by"

// ClassOf returns the name of a claim's storage class, or "" if it has none.
//
//upstream:k8s.io/component-helpers/storage/volume.GetPersistentVolumeClaimClass
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return ptr.Deref(claim.Spec.StorageClassName, "")
}

// WaitsForConsumer reports whether the claims of a class are bound only when a pod that uses them has a
// node.
//
//upstream:k8s.io/component-helpers/storage/volume.IsDelayBindingMode
func WaitsForConsumer(class *storagev1.StorageClass) bool {
	return ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
}

// ClaimRef returns the reference of a volume to its claim.
func ClaimRef(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
		Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion}
}
