package controllers

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/controllers/pods"
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
	if node, ok := obj.(*corev1.Node); ok {
		return nodeWarnings(node)
	}
	template, at := podTemplate(obj)
	if template == nil {
		return nil
	}
	warnings := usageWarnings(&template.ObjectMeta, at)
	if _, ok := obj.(*corev1.Pod); ok && old != nil {
		return warnings // the users of the other fields are controllers, and what matters is immutable
	}
	spec, path := &template.Spec, at.Child("spec")
	return append(warnings, kubeletWarnings(spec, path)...)
}

// unenforced returns the warning for an object of a kind on which no controller acts yet, or "".
func unenforced(obj runtime.Object) string {
	const format = "no controller acts on %s: %s"
	switch obj.(type) {
	case *storagev1.CSIDriver:
		return fmt.Sprintf(format, "csidrivers", "no volume is mounted")
	case *storagev1.VolumeAttachment:
		return fmt.Sprintf(format, "volumeattachments", "no volume is attached")
	}
	return ""
}

// podTemplate returns the metadata and the specification of an object's pods, and the path of both, or nil.
func podTemplate(obj runtime.Object) (*corev1.PodTemplateSpec, *field.Path) {
	path := field.NewPath("spec", "template")
	switch o := obj.(type) {
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}, nil
	case *appsv1.Deployment:
		return &o.Spec.Template, path
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, path
	case *appsv1.StatefulSet:
		return &o.Spec.Template, path
	case *appsv1.DaemonSet:
		return &o.Spec.Template, path
	case *corev1.ReplicationController:
		return o.Spec.Template, path
	case *batchv1.Job:
		return &o.Spec.Template, path
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, field.NewPath("spec", "jobTemplate", "spec", "template")
	}
	return nil, nil
}

// nodeWarnings returns the warnings for an annotation that neither starts nor stops the kubelet of a node.
func nodeWarnings(node *corev1.Node) []string {
	switch value, ok := node.Annotations[pods.KubeletAnnotation]; {
	case !ok, value == pods.KubeletRunning, value == pods.KubeletStopped:
		return nil
	default:
		return []string{fmt.Sprintf("metadata.annotations[%s]: the value %q has no effect: want %s or %s", pods.KubeletAnnotation, value,
			pods.KubeletRunning, pods.KubeletStopped)}
	}
}

// kubeletWarnings returns the warnings for the fields of pods that kubelet's stand-in ignores.
func kubeletWarnings(spec *corev1.PodSpec, path *field.Path) (warnings []string) {
	if len(spec.ResourceClaims) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: no device is allocated, and the pod starts without it", path.Child("resourceClaims")))
	}
	return warnings
}
