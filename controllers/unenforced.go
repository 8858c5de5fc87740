package controllers

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns the warnings for a write of an object: that no controller acts on its kind yet, or
// on a field of consequence. old is nil on create.
//
// Of controllers that the user has switched off there is no warning, as from kube-apiserver: another
// program, or a test, does their work. Without the controller pods there is none at all, because
// what runs then is an API server and not a cluster.
func (o *Options) Warnings(obj, old runtime.Object) []string {
	if slices.Contains(o.Without, "pods") {
		return nil
	}
	if what := unenforced(obj); what != "" {
		return []string{what}
	}
	if _, ok := obj.(*corev1.Pod); ok && old != nil {
		return nil // their users are controllers, and what matters is immutable
	}
	spec, path := podSpec(obj)
	if spec == nil {
		return nil
	}
	warnings := kubeletWarnings(spec, path)
	if !slices.Contains(o.Without, "scheduler") && spec.SchedulerName == corev1.DefaultSchedulerName {
		warnings = append(warnings, schedulerWarnings(spec, path)...)
	}
	return warnings
}

// unenforced returns the warning for an object of a kind on which no controller acts yet, or "".
func unenforced(obj runtime.Object) string {
	const format = "no controller acts on %s: %s"
	switch obj.(type) {
	case *appsv1.DaemonSet:
		return fmt.Sprintf(format, "daemonsets", "no pod is created")
	case *corev1.ReplicationController:
		return fmt.Sprintf(format, "replicationcontrollers", "no pod is created")
	case *autoscalingv2.HorizontalPodAutoscaler:
		return fmt.Sprintf(format, "horizontalpodautoscalers", "nothing is scaled")
	case *storagev1.CSIDriver:
		return fmt.Sprintf(format, "csidrivers", "no volume is mounted")
	case *storagev1.CSINode:
		return fmt.Sprintf(format, "csinodes", "the number of volumes of a node is not limited")
	case *storagev1.CSIStorageCapacity:
		return fmt.Sprintf(format, "csistoragecapacities", "the capacity of storage is not considered")
	case *storagev1.VolumeAttachment:
		return fmt.Sprintf(format, "volumeattachments", "no volume is attached")
	}
	return ""
}

// podSpec returns the specification of an object's pods, and its path, or nil.
func podSpec(obj runtime.Object) (*corev1.PodSpec, *field.Path) {
	spec := field.NewPath("spec")
	template := spec.Child("template", "spec")
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, template
	case *batchv1.Job:
		return &o.Spec.Template.Spec, template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, spec.Child("jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}

// kubeletWarnings returns the warnings for the fields of pods that kubelet's stand-in ignores.
func kubeletWarnings(spec *corev1.PodSpec, path *field.Path) (warnings []string) {
	if len(spec.ResourceClaims) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: no device is allocated, and the pod starts without it", path.Child("resourceClaims")))
	}
	return warnings
}

// schedulerWarnings returns the warnings for the fields of pods that the scheduler ignores, though a
// pod may have to stay Pending for them.
func schedulerWarnings(spec *corev1.PodSpec, path *field.Path) (warnings []string) {
	ignored := func(at *field.Path) {
		warnings = append(warnings, fmt.Sprintf("%s: the scheduler does not consider other pods, and ignores the field", at))
	}
	if a := spec.Affinity; a != nil {
		const required = "requiredDuringSchedulingIgnoredDuringExecution"
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			ignored(path.Child("affinity", "podAffinity", required))
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			ignored(path.Child("affinity", "podAntiAffinity", required))
		}
	}
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			ignored(path.Child("topologySpreadConstraints").Index(i))
		}
	}
	return warnings
}
