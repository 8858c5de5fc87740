package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
	"flyball.dev/internal/quota"
)

// podResizeValidator rejects resizing a pod beyond the capacity of its node, or on a node that does not run Linux.
//
//upstream:plugin/pkg/admission/podresize.Plugin
type podResizeValidator struct {
	*admission.Handler
	nodes *stored.Reader[*corev1.Node]
}

var _ admission.ValidationInterface = podResizeValidator{}

func newPodResizeValidator(e Environment) admission.Interface {
	return podResizeValidator{admission.NewHandler(admission.Update),
		stored.NewReader[*corev1.Node](e, corev1.SchemeGroupVersion.WithResource("nodes"))}
}

// Validate implements [admission.ValidationInterface].
func (p podResizeValidator) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	old, had := a.GetOldObject().(*corev1.Pod)
	if a.GetSubresource() != "resize" || !ok || !had || pod.Spec.NodeName == "" || old.Generation == pod.Generation {
		return nil
	}
	node, err := p.nodes.Get(ctx, "", pod.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	case err != nil:
		return admission.NewForbidden(a, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != "linux" {
		return forbiddenBecause(a, "UnsupportedPlatform", fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
	}
	if err := fits(pod, node.Status.Allocatable); err != nil {
		return forbiddenBecause(a, "NodeCapacity", err)
	}
	return nil
}

// fits returns an error if a pod requests more than the allocatable resources.
//
//upstream:plugin/pkg/admission/podresize.validateRequestsWithinAllocatable
func fits(pod *corev1.Pod, allocatable corev1.ResourceList) error {
	requests, _ := quota.Requirements(pod)
	cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	cpu.Add(pod.Spec.Overhead[corev1.ResourceCPU])
	memory.Add(pod.Spec.Overhead[corev1.ResourceMemory])
	var excess []string
	if most := allocatable.Cpu(); cpu.Cmp(*most) > 0 {
		excess = append(excess, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), most.MilliValue()))
	}
	if most := allocatable.Memory(); memory.Cmp(*most) > 0 {
		excess = append(excess, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), most.Value()))
	}
	if len(excess) == 0 {
		return nil
	}
	return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(excess, "; "))
}

// forbiddenBecause returns a Forbidden error with a cause.
func forbiddenBecause(a admission.Attributes, cause metav1.CauseType, err error) error {
	forbidden := admission.NewForbidden(a, err)
	if status := (*apierrors.StatusError)(nil); errors.As(forbidden, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return forbidden
}
