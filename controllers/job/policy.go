package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// failureAction is the action of the pod failure policy for a failed pod.
type failureAction struct {
	action  batchv1.PodFailurePolicyAction // "" if no rule matches
	message string                         // of the condition of the Job, for FailJob
}

// counts reports whether the pod counts as failed.
func (a failureAction) counts() bool { return a.action != batchv1.PodFailurePolicyActionIgnore }

// failureActionOf returns the action of the first rule that matches a failed pod.
//
//upstream:pkg/controller/job.matchPodFailurePolicy
func failureActionOf(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) failureAction {
	if policy == nil {
		return failureAction{}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		if codes := rule.OnExitCodes; codes != nil {
			if s := matchingContainer(pod, codes); s != nil {
				return failureAction{rule.Action, fmt.Sprintf(
					"Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d",
					s.Name, pod.Namespace, pod.Name, s.State.Terminated.ExitCode, rule.Action, i)}
			}
			continue
		}
		if c := matchingCondition(pod, rule.OnPodConditions); c != nil {
			return failureAction{rule.Action, fmt.Sprintf("Pod %s/%s has condition %s matching %s rule at index %d",
				pod.Namespace, pod.Name, c.Type, rule.Action, i)}
		}
	}
	return failureAction{}
}

// matchingContainer returns the status of the first container, or else init container, that has
// failed with an exit code that matches, or nil.
//
//upstream:pkg/controller/job.matchOnExitCodes
func matchingContainer(pod *corev1.Pod, want *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			s := &list[i]
			if s.State.Terminated == nil || s.State.Terminated.ExitCode == 0 ||
				want.ContainerName != nil && *want.ContainerName != s.Name {
				continue
			}
			listed := slices.Contains(want.Values, s.State.Terminated.ExitCode)
			if listed == (want.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return s
			}
		}
	}
	return nil
}

// matchingCondition returns the first condition of a pod that matches a pattern, or nil.
//
//upstream:pkg/controller/job.matchOnPodConditions
func matchingCondition(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == c.Type && p.Status == c.Status
		}) {
			return c
		}
	}
	return nil
}

// successRule returns the index of the first rule of a success policy that the succeeded indexes satisfy.
//
//upstream:pkg/controller/job.matchSuccessPolicy
func successRule(policy *batchv1.SuccessPolicy, completions int, succeeded indexes) (index int, ok bool) {
	if policy == nil || len(succeeded) == 0 {
		return 0, false
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		count, wanted := succeeded.count(), 0
		if rule.SucceededIndexes != nil {
			among := parseIndexes(*rule.SucceededIndexes, completions)
			if len(among) == 0 {
				continue
			}
			count, wanted = succeeded.common(among), among.count()
		}
		if rule.SucceededCount != nil {
			wanted = int(*rule.SucceededCount)
		}
		if count >= wanted {
			return i, true
		}
	}
	return 0, false
}
