// Package core describes the kinds of the core API group, and Event, which events.k8s.io serves
// too.
//
// The subresources of a pod for logs and connections ask [Connections] for the kubelet of the pod's node. A proxy
// connects by the runtime of the containers, and never to an address in an object.
package core

import (
	"context"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// Pods describes the kind Pod, and sets up the binder. Evictions ask the budgets, and connections to
// containers ask the authorizer.
//
//upstream:pkg/registry/core/pod.podStrategy
//upstream:pkg/registry/core/pod.podStatusStrategy
//upstream:pkg/registry/core/pod/storage.REST.ShortNames
//upstream:pkg/registry/core/pod/storage.REST.Categories
//upstream:pkg/apis/core/v1.addConversionFuncs
func Pods(budgets *Budgets, binder *Binder, access authorizer.UnconditionalAuthorizer, c *Connections) kinds.Kind {
	return kinds.Of[*corev1.Pod]{
		Type: &corev1.Pod{}, List: &corev1.PodList{},
		Plural: "pods", ShortNames: []string{"po"}, Categories: []string{"all"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        DefaultPod,
		Prepare:        preparePod,
		ValidateCreate: validateNewPod,
		ValidateUpdate: validatePodUpdate,
		Status:         true,
		PrepareStatus:  preparePodStatus,
		StatusReset:    []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
		ValidateStatus: validatePodStatus,
		Warnings:       podWarnings,
		StatusWarnings: podStatusWarnings,
		Generation:     true,
		GracePeriod:    podGracePeriod,
		Columns:        podColumns,
		Row:            podRow,
		Fields:         podFields,
		Indexed:        []string{"spec.nodeName"},
		FieldAliases:   map[string]string{"spec.host": "spec.nodeName"}, // the name before v1
		More:           podSubresources(budgets, binder, access, c),
		Parts:          podParts,
	}
}

// DefaultPod sets the defaults of a pod.
//
//upstream:pkg/apis/core/v1.SetDefaults_Pod
//upstream:pkg/apis/core/v1.SetDefaults_PodStatus
func DefaultPod(p *corev1.Pod) {
	podspec.SetDefaults(&p.Spec)
	podspec.SetPodDefaults(&p.Spec)
	s := &p.Status
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	podspec.RoundUp(s.AllocatedResources)
	if s.Resources != nil {
		podspec.RoundUp(s.Resources.Limits)
		podspec.RoundUp(s.Resources.Requests)
	}
	for _, list := range [...][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			podspec.RoundUp(list[i].AllocatedResources)
			if r := list[i].Resources; r != nil {
				podspec.RoundUp(r.Limits)
				podspec.RoundUp(r.Requests)
			}
		}
	}
}

// preparePod sets the status of a new pod, and what its spec takes from its labels, annotations and containers. An update
// that leaves out the resources of the pod keeps them.
//
//upstream:pkg/registry/core/pod.podStrategy.PrepareForCreate
//upstream:pkg/registry/core/pod.podStrategy.PrepareForUpdate
//upstream:pkg/registry/core/pod.applySchedulingGatedCondition
func preparePod(ctx context.Context, p, old *corev1.Pod) {
	if old != nil {
		keepResources(&p.Spec, &old.Spec)
		return
	}
	podspec.MergeLabelKeys(p)
	if len(p.Annotations) > 0 {
		applyAppArmor(ctx, p)
	}
	podspec.CompleteResources(&p.Spec)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QOSClass(&p.Spec)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			LastTransitionTime: metav1.Now(),
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
}

// keepResources keeps the resources of the pod as a whole if a client leaves them out that does not know the field.
func keepResources(s, old *corev1.PodSpec) {
	if s.Resources == nil && old.Resources != nil {
		s.Resources = old.Resources.DeepCopy()
	}
}

// ValidatePod checks a pod. The old pod is nil on create.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
//upstream:pkg/apis/core/validation.validateContainersOnlyForPod
//upstream:pkg/apis/core/validation.ValidateContainerUpdates
func ValidatePod(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	podspec.Validate(check.Object(&errs), p, old)
	for _, list := range [...]struct {
		field      string
		containers []corev1.Container
	}{{"containers", p.Spec.Containers}, {"initContainers", p.Spec.InitContainers}} {
		for i := range list.containers {
			if image := list.containers[i].Image; image != strings.TrimSpace(image) {
				errs = append(errs, field.Invalid(fieldrules.Spec.ChildField(list.field).Index(i).Child("image"), image,
					podspec.PaddedImage))
			}
		}
	}
	return errs
}

// ImmutableFields is the message of the error for a change of immutable fields of a pod.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
//upstream:pkg/apis/core/validation.updatablePodSpecFields
const ImmutableFields = "pod updates may not change fields other than `spec.containers[*].image`," +
	"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing " +
	"tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// podGracePeriod returns the grace period of a pod. A pod that has no node or has ended gets none.
//
//upstream:pkg/registry/core/pod.podStrategy.CheckGracefulDelete
func podGracePeriod(p *corev1.Pod) time.Duration {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	seconds := podspec.DefaultGracePeriod
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		seconds = *s
	}
	if seconds < 0 {
		seconds = 1
	}
	return time.Duration(seconds) * time.Second
}

// podFields returns the fields of a pod that selectors can name.
//
//upstream:pkg/registry/core/pod.ToSelectableFields
func podFields(p *corev1.Pod) fields.Set {
	return fields.Set{
		"spec.nodeName":            p.Spec.NodeName,
		"spec.restartPolicy":       string(p.Spec.RestartPolicy),
		"spec.schedulerName":       p.Spec.SchedulerName,
		"spec.serviceAccountName":  p.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(p.Spec.HostNetwork),
		"status.phase":             string(p.Status.Phase),
		"status.podIP":             p.Status.PodIP,
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}
