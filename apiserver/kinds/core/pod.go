// Package core describes the kinds of the core API group, and Event, which events.k8s.io serves
// too.
package core

import (
	"context"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
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
func Pods(budgets *Budgets, binder *Binder, access authorizer.UnconditionalAuthorizer) kinds.Kind {
	return kinds.Of[*corev1.Pod]{
		Type: &corev1.Pod{}, List: &corev1.PodList{},
		Plural: "pods", ShortNames: []string{"po"}, Categories: []string{"all"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        DefaultPod,
		Prepare:        preparePod,
		Validate:       ValidatePod,
		ValidateCreate: validateNewPod,
		ValidateUpdate: validatePodUpdate,
		Status:         true,
		PrepareStatus:  preparePodStatus,
		StatusReset:    []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
		ValidateStatus: validatePodStatus,
		Warnings:       podWarnings,
		Generation:     true,
		GracePeriod:    podGracePeriod,
		Columns:        podColumns,
		Row:            podRow,
		Fields:         podFields,
		FieldAliases:   map[string]string{"spec.host": "spec.nodeName"}, // the name before v1
		More:           podSubresources(budgets, binder, access),
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
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	switch s := &p.Status; {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// preparePod sets the status of a new pod.
//
//upstream:pkg/registry/core/pod.podStrategy.PrepareForCreate
//upstream:pkg/registry/core/pod.applySchedulingGatedCondition
func preparePod(ctx context.Context, p, old *corev1.Pod) {
	if old != nil {
		return
	}
	if len(p.Annotations) > 0 {
		applyAppArmor(ctx, p)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QOSClass(&p.Spec)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			LastTransitionTime: metav1.Now(),
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
}

// QOSClass returns the quality-of-service class of a pod, from the requests and the limits of CPU and
// memory.
//
//upstream:pkg/apis/core/helper/qos.ComputePodQOS
func QOSClass(s *corev1.PodSpec) corev1.PodQOSClass {
	any, all := false, true
	consider := func(r *corev1.ResourceRequirements) {
		for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, requested := r.Requests[name]
			limit, limited := r.Limits[name]
			any = any || requested && !request.IsZero() || limited && !limit.IsZero()
			all = all && limited && !limit.IsZero() && (!requested || request.Cmp(limit) == 0)
		}
	}
	if s.Resources != nil {
		consider(s.Resources)
	} else {
		for i := range s.InitContainers {
			consider(&s.InitContainers[i].Resources)
		}
		for i := range s.Containers {
			consider(&s.Containers[i].Resources)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// ValidatePod checks a new or updated pod.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
//upstream:pkg/apis/core/validation.validateContainersOnlyForPod
//upstream:pkg/apis/core/validation.ValidateContainerUpdates
func ValidatePod(p *corev1.Pod) field.ErrorList {
	fldPath := &fieldrules.Spec
	errs := podspec.Validate(&p.Spec, fldPath)
	for _, list := range [...]struct {
		field      string
		containers []corev1.Container
	}{{"containers", p.Spec.Containers}, {"initContainers", p.Spec.InitContainers}} {
		for i := range list.containers {
			if image := list.containers[i].Image; image != strings.TrimSpace(image) {
				errs = append(errs, field.Invalid(fldPath.ChildField(list.field).Index(i).Child("image"), image,
					"must not have leading or trailing whitespace"))
			}
		}
	}
	if len(p.Annotations) > 0 {
		errs = append(errs, podAnnotations(p)...)
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

// validatePodUpdate checks that only mutable fields of a pod change.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
//upstream:pkg/apis/core/validation.ValidateContainerUpdates
func validatePodUpdate(p, old *corev1.Pod) field.ErrorList {
	fldPath := fieldrules.Spec
	var errs field.ErrorList
	if len(p.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(fldPath.ChildField("containers"), "pod updates may not add or remove containers"))
	}
	if len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(fldPath.ChildField("initContainers"),
			"pod updates may not add or remove containers"))
	}
	if now, was := p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds; was != nil {
		if now == nil {
			errs = append(errs, field.Invalid(fldPath.ChildField("activeDeadlineSeconds"), now,
				"must not update from a positive integer to nil value"))
		} else if *now > *was {
			errs = append(errs, field.Invalid(fldPath.ChildField("activeDeadlineSeconds"), *now,
				"must be less than or equal to previous value"))
		}
	}
	errs = append(errs, fewerGates(p, old, &fldPath)...)
	errs = append(errs, moreTolerations(p.Spec.Tolerations, old.Spec.Tolerations, &fldPath)...)
	if len(errs) > 0 || equality.Semantic(&p.Spec, &old.Spec) {
		return errs
	}
	if reset := resetMutable(p, old); !equality.Semantic(&reset, &old.Spec) {
		errs = append(errs, field.Forbidden(fldPath.Field(), ImmutableFields+"\n"+diff.Diff(old.Spec, reset)))
	}
	return errs
}

// resetMutable returns the new spec with the old values of all mutable fields.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
func resetMutable(p, old *corev1.Pod) corev1.PodSpec {
	s := *p.Spec.DeepCopy()
	for i := range s.Containers {
		s.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	s.Tolerations = old.Spec.Tolerations
	s.SchedulingGates = old.Spec.SchedulingGates
	if was := old.Spec.TerminationGracePeriodSeconds; was != nil && *was < 0 &&
		s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds == 1 {
		s.TerminationGracePeriodSeconds = was
	}
	if len(old.Spec.SchedulingGates) > 0 {
		resetGatedMutable(&s, &old.Spec)
	}
	return s
}

// resetGatedMutable resets the node selector of a pod with scheduling gates if the update only adds to
// the selector.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
//upstream:pkg/apis/core/validation.validateNodeSelectorMutation
func resetGatedMutable(s, old *corev1.PodSpec) {
	for k, v := range old.NodeSelector {
		if s.NodeSelector[k] != v {
			return
		}
	}
	s.NodeSelector = old.NodeSelector
}

// fewerGates checks that an update adds no scheduling gate.
//
//upstream:pkg/apis/core/validation.validateOnlyDeletedSchedulingGates
func fewerGates(p, old *corev1.Pod, fldPath *fieldrules.Path) field.ErrorList {
	var known fieldrules.Seen[corev1.PodSchedulingGate]
	for _, g := range old.Spec.SchedulingGates {
		known.Add(g)
	}
	for i, g := range p.Spec.SchedulingGates {
		if !known.Has(g) {
			return field.ErrorList{field.Forbidden(fldPath.ChildField("schedulingGates").Index(i).Child("name"),
				"only deletion is allowed, but found new scheduling gate '"+g.Name+"'")}
		}
	}
	return nil
}

// moreTolerations checks that an update removes no toleration, and changes only tolerationSeconds.
//
//upstream:pkg/apis/core/validation.validateOnlyAddedTolerations
func moreTolerations(now, was []corev1.Toleration, fldPath *fieldrules.Path) field.ErrorList {
	var kept fieldrules.Seen[corev1.Toleration]
	for _, t := range now {
		t.TolerationSeconds = nil
		kept.Add(t)
	}
	for _, t := range was {
		t.TolerationSeconds = nil
		if !kept.Has(t) {
			return field.ErrorList{field.Forbidden(fldPath.ChildField("tolerations"),
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

// validatePodStatus checks an update of the status: the nominated node, the QoS class, the addresses,
// and the states of the containers.
//
//upstream:pkg/apis/core/validation.ValidatePodStatusUpdate
//upstream:pkg/apis/core/validation.ValidateContainerStateTransition
func validatePodStatus(p, old *corev1.Pod) field.ErrorList {
	fldPath := fieldrules.Status
	var errs field.ErrorList
	if now, was := p.Status.NominatedNodeName, old.Status.NominatedNodeName; now != "" && now != was {
		errs = append(errs, fieldrules.DNSName(now, &fldPath, "nominatedNodeName")...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(fldPath.ChildField("nominatedNodeName"),
				"may not be set on pods that are already bound to a node"))
		}
	}
	if p.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs, fieldrules.Immutable(p.Status.QOSClass, old.Status.QOSClass, &fldPath, "qosClass")...)
	}
	errs = append(errs, validatePodIPs(p.Status.PodIPs, old.Status.PodIPs)...)
	if p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return errs
	}
	for i, c := range p.Status.ContainerStatuses {
		for _, was := range old.Status.ContainerStatuses {
			if was.Name == c.Name && was.State.Terminated != nil && c.State.Terminated == nil &&
				old.Status.Phase == corev1.PodFailed {
				errs = append(errs, field.Forbidden(fldPath.ChildField("containerStatuses").Index(i).Child("state"),
					"may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

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
