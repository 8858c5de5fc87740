package statefulset

import (
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podcontrol"
)

// desired returns the replicas that a StatefulSet should have.
func desired(set *appsv1.StatefulSet) int { return int(ptr.Deref(set.Spec.Replicas, 1)) }

// startOrdinal returns the ordinal of the first replica.
//
//upstream:pkg/controller/statefulset.getStartOrdinal
func startOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// inRange reports whether a replica with an ordinal should exist.
//
//upstream:pkg/controller/statefulset.podInOrdinalRange
func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	first := startOrdinal(set)
	return ordinal >= first && ordinal < first+desired(set)
}

// podName returns the name of the pod with an ordinal.
//
//upstream:pkg/controller/statefulset.getPodName
func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

// ordinalOf returns the ordinal in the name of a pod. ok is false if no pod of the StatefulSet has
// that name.
//
//upstream:pkg/controller/statefulset.getParentNameAndOrdinal
//upstream:pkg/controller/statefulset.isMemberOf
func ordinalOf(set *appsv1.StatefulSet, pod *corev1.Pod) (ordinal int, ok bool) {
	digits, ok := strings.CutPrefix(pod.Name, set.Name+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil && pod.Name == podName(set, int(n))
}

// revisionOf returns the name of the revision that a pod was created from.
//
//upstream:pkg/controller/statefulset.getPodRevision
func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// newPod returns the pod with an ordinal, from a revision.
//
//upstream:pkg/controller/statefulset.newStatefulSetPod
//upstream:pkg/controller/statefulset.newVersionedStatefulSetPod
func newPod(set *appsv1.StatefulSet, from revision, ordinal int) *corev1.Pod {
	pod := podcontrol.FromTemplate(from.template, set, kind)
	pod.Name = podName(set, ordinal)
	setIdentity(pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = from.name
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	setVolumes(set, pod, ordinal)
	return pod
}

// setIdentity sets the labels for the name and the ordinal of a pod.
//
//upstream:pkg/controller/statefulset.updateIdentity
func setIdentity(pod *corev1.Pod, ordinal int) {
	if pod.Labels = maps.Clone(pod.Labels); pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

// conform returns a copy of a pod with the labels and the volumes that it should have, or nil if the pod has them. A
// missing index label alone is no reason for an update, since pods of old versions lack it.
//
//upstream:pkg/controller/statefulset.identityMatches
func conform(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) *corev1.Pod {
	if pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name && storageMatches(set, pod, ordinal) {
		return nil
	}
	pod = pod.DeepCopy()
	setIdentity(pod, ordinal)
	if !storageMatches(set, pod, ordinal) {
		setVolumes(set, pod, ordinal)
	}
	return pod
}

// storageMatches reports whether a pod has volumes for all its claims.
//
//upstream:pkg/controller/statefulset.storageMatches
func storageMatches(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	volumes := map[string]*corev1.PersistentVolumeClaimVolumeSource{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v.PersistentVolumeClaim
	}
	for _, t := range claimTemplates(set) {
		if source := volumes[t.Name]; source == nil || source.ClaimName != claimName(set, t, ordinal) {
			return false
		}
	}
	return true
}

// setVolumes sets the volumes for the claims of a pod. They replace other volumes of the same names.
//
//upstream:pkg/controller/statefulset.updateStorage
func setVolumes(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) {
	templates := claimTemplates(set)
	if len(templates) == 0 {
		return
	}
	var volumes []corev1.Volume
	isClaim := map[string]bool{}
	for _, t := range templates {
		isClaim[t.Name] = true
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t, ordinal)}}})
	}
	for _, v := range pod.Spec.Volumes {
		if !isClaim[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}
