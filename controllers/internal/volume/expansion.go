package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// expansionConditions are the conditions of claims about their expansion.
//
//upstream:pkg/volume/util.knownResizeConditions
var expansionConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimControllerResizeError,
	corev1.PersistentVolumeClaimNodeResizeError,
}

// OtherConditions returns the conditions of a claim that are not about its expansion.
//
//upstream:pkg/volume/util.MergeResizeConditionOnPVC
func OtherConditions(claim *corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaimCondition {
	return slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c corev1.PersistentVolumeClaimCondition) bool {
		return slices.Contains(expansionConditions, c.Type)
	})
}

// NeedsNode reports whether a node has to expand the file system of a claim.
//
//upstream:pkg/volume/util/operationexecutor.operationGenerator.checkForRecoveryFromExpansion
func NeedsNode(claim *corev1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		return claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil
	}
	return false
}

// Expanded returns the status of a claim after its expansion to a size.
//
//upstream:pkg/volume/util.MarkFSResizeFinished
func Expanded(claim *corev1.PersistentVolumeClaim, size resource.Quantity) corev1.PersistentVolumeClaimStatus {
	s := *claim.Status.DeepCopy()
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	s.Capacity[corev1.ResourceStorage] = size
	if delete(s.AllocatedResourceStatuses, corev1.ResourceStorage); len(s.AllocatedResourceStatuses) == 0 {
		s.AllocatedResourceStatuses = nil
	}
	s.Conditions = OtherConditions(claim)
	return s
}
