package podautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// plan is the next step of a scaler: the number of replicas of its target, its status, and events.
type plan struct {
	scaler  *autoscalingv2.HorizontalPodAutoscaler // its conditions change with the plan
	history *history
	now     time.Time
	least   int32 // of the range
	current int32 // the replicas that the target should have now
	// existing are the replicas that the target has.
	existing int32

	desired int32
	reason  string // for another number
	metrics []autoscalingv2.MetricStatus
	events  []event
	failed  bool // the status keeps the desired replicas of an earlier step
}

// event is an event about the scaler.
type event struct{ kind, reason, message string }

// newPlan returns the plan for a target with a scale, without considering metrics.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.reconcileAutoscaler
func newPlan(scaler *autoscalingv2.HorizontalPodAutoscaler, scale *autoscalingv1.Scale, h *history, now time.Time) *plan {
	p := &plan{scaler: scaler, history: h, now: now, least: ptr.Deref(scaler.Spec.MinReplicas, 1),
		current: scale.Spec.Replicas, existing: scale.Status.Replicas, desired: scale.Spec.Replicas}
	p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	h.begin(p.current, now)
	return p
}

// needsMetrics reports whether the desired replicas depend on metrics. Otherwise, they are in the plan.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.shouldComputeMetricsForZeroReplicas
func (p *plan) needsMetrics() bool {
	switch {
	case p.current == 0:
		if p.scaledToZero() && (p.least != 0 || p.scalesFromZero()) {
			return true
		}
		p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
	case p.current > p.scaler.Spec.MaxReplicas:
		p.desired, p.reason = p.scaler.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas"
	case p.current < p.least:
		p.desired, p.reason = p.least, "Current number of replicas below Spec.MinReplicas"
	default:
		return true
	}
	return false
}

// scaledToZero reports whether the scaler itself has scaled its target to zero.
//
//upstream:pkg/controller/podautoscaler.getScaledToZeroConditionStatus
func (p *plan) scaledToZero() bool {
	return slices.ContainsFunc(p.scaler.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScaledToZero && c.Status == corev1.ConditionTrue
	})
}

// scalesFromZero reports whether a metric exists without pods.
//
//upstream:pkg/controller/podautoscaler.hasObjectOrExternalMetrics
func (p *plan) scalesFromZero() bool {
	return slices.ContainsFunc(p.scaler.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// invalid ends a plan for pods that cannot be determined.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.validateAndParseSelector
func (p *plan) invalid(eventReason, conditionReason, conditionMessage string, err error) {
	p.warn(eventReason, err.Error())
	p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, conditionReason, conditionMessage)
	p.fail(err)
}

// fail ends a plan without another number of replicas.
func (p *plan) fail(err error) {
	p.failed, p.desired = true, p.current
	p.warn("FailedComputeMetricsReplicas", err.Error())
}

// compute computes the desired replicas from the pods of the target and a sample of each metric. It returns the first error
// of a metric.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.reconcileAutoscaler
//upstream:pkg/controller/podautoscaler.HorizontalController.computeReplicasForMetrics
func (p *plan) compute(pods []*corev1.Pod, samples []sample) error {
	c := &calculator{pods: pods, current: p.current, tolerance: p.tolerances(), now: p.now}
	specs := p.scaler.Spec.Metrics
	p.metrics = make([]autoscalingv2.MetricStatus, len(specs))
	var highest proposal
	var first *failure
	failures := 0
	for i := range specs {
		found, failed := c.propose(&specs[i], samples[i], p.existing)
		if failed != nil {
			p.warn(failed.reason, failed.cause.Error())
			if failures++; first == nil {
				first = failed
			}
			continue
		}
		p.metrics[i] = found.status
		if highest.replicas == 0 || found.replicas > highest.replicas {
			highest = found
		}
	}
	var err error
	if first != nil {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", failures, len(specs), first.err)
	}
	if failures == len(specs) || failures > 0 && highest.replicas < p.current {
		if first == nil {
			err = errors.New("the HPA has no metrics")
		} else {
			p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, first.reason, "the HPA was unable to compute the replica count: "+first.cause.Error())
		}
		p.fail(err)
		return err
	}
	p.set(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+highest.metric)
	p.normalize(highest)
	return err
}

// tolerances returns the tolerances of the scaler.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.tolerancesForHpa
func (p *plan) tolerances() tolerances {
	t := tolerances{defaultTolerance, defaultTolerance}
	b := p.scaler.Spec.Behavior
	if b == nil {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

// normalize sets the desired replicas to a proposal within the range, the stabilization windows and the rates of the
// scaler.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.normalizeDesiredReplicas
//upstream:pkg/controller/podautoscaler.HorizontalController.normalizeDesiredReplicasWithBehaviors
func (p *plan) normalize(by proposal) {
	most, behavior := p.scaler.Spec.MaxReplicas, p.scaler.Spec.Behavior
	proposed := max(by.replicas, 0)
	if proposed == 0 {
		by.metric = ""
	}
	switch {
	case proposed > p.current:
		p.reason = by.metric + " above target"
	case proposed < p.current:
		p.reason = "All metrics below target"
	}
	var stable, limited verdict
	if behavior == nil {
		stable = p.history.stabilize(proposed, p.now)
		limited = limit(p.current, stable.replicas, p.least, most)
	} else {
		stable = p.history.stabilizeBy(behavior, p.current, proposed, p.now)
		limited = p.history.limitBy(behavior, p.current, stable.replicas, p.least, most, p.now)
	}
	if stable.replicas != proposed {
		p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, stable.reason, stable.message)
	} else {
		p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale", "recommended size matches current size")
	}
	status := corev1.ConditionFalse
	if limited.replicas != stable.replicas {
		status = corev1.ConditionTrue
	}
	p.set(autoscalingv2.ScalingLimited, status, limited.reason, limited.message)
	p.desired = limited.replicas
	if p.current == 0 && p.scaledToZero() && p.desired < p.least {
		p.desired = p.least
		if p.reason == "" {
			p.reason = "Current number of replicas below Spec.MinReplicas"
		}
	}
}

// rescales reports whether the target gets another number of replicas.
func (p *plan) rescales() bool { return !p.failed && p.desired != p.current }

// rescaled records that the target has the desired replicas.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.reconcileAutoscaler
func (p *plan) rescaled() {
	p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", p.desired))
	p.events = append(p.events, event{corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", p.desired, p.reason)})
	p.history.scaled(p.scaler.Spec.Behavior, p.current, p.desired, p.now)
	if p.desired == 0 && p.least == 0 && p.scalesFromZero() {
		p.set(autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
	} else {
		p.set(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
	}
}

// notRescaled records that the scale of the target could not be written.
func (p *plan) notRescaled(err error) {
	p.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", p.desired, p.reason, err))
	p.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
	p.failed = true
}

// status returns the status of the scaler.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.setStatus
func (p *plan) status() autoscalingv2.HorizontalPodAutoscalerStatus {
	s := autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: ptr.To(p.scaler.Generation),
		LastScaleTime:      p.scaler.Status.LastScaleTime,
		CurrentReplicas:    p.current,
		DesiredReplicas:    p.desired,
		CurrentMetrics:     p.metrics,
		Conditions:         p.scaler.Status.Conditions,
	}
	switch {
	case p.failed:
		s.DesiredReplicas = p.scaler.Status.DesiredReplicas
	case p.desired != p.current:
		s.LastScaleTime = ptr.To(metav1.NewTime(p.now))
	}
	return s
}

func (p *plan) warn(reason, message string) {
	p.events = append(p.events, event{corev1.EventTypeWarning, reason, message})
}

// set sets a condition of the scaler.
func (p *plan) set(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	p.scaler.Status.Conditions = setCondition(p.scaler.Status.Conditions, kind, status, reason, message, p.now)
}

// setCondition sets a condition in a list. The time of its last transition changes with its status.
//
//upstream:pkg/controller/podautoscaler.setConditionInList
func setCondition(list []autoscalingv2.HorizontalPodAutoscalerCondition, kind autoscalingv2.HorizontalPodAutoscalerConditionType,
	status corev1.ConditionStatus, reason, message string, now time.Time) []autoscalingv2.HorizontalPodAutoscalerCondition {
	i := slices.IndexFunc(list, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i, list = len(list), append(list, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &list[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	c.Status, c.Reason, c.Message = status, reason, message
	return list
}
