package podautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
)

// stabilizationWindow is the time for which a scaler without a behavior does not go below an earlier recommendation.
//
//upstream:pkg/controller/podautoscaler/config/v1alpha1.RecommendedDefaultHPAControllerConfiguration
const stabilizationWindow = 5 * time.Minute

// history is the past of a scaler. It begins with the controller.
type history struct {
	recommendations []entry
	ups, downs      []entry // by how many replicas it was scaled
}

// entry is a number of replicas at a time.
type entry struct {
	replicas int32
	at       time.Time
	outdated bool // it may be replaced
}

// begin adds the first recommendation: the replicas that the target has.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.recordInitialRecommendation
func (h *history) begin(current int32, now time.Time) {
	if h.recommendations == nil {
		h.recommendations = []entry{{replicas: current, at: now}}
	}
}

// addEntry adds an entry in place of the last outdated one, so that a history has as many entries as its windows need.
func addEntry(list []entry, replicas int32, now time.Time) []entry {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].outdated {
			list[i] = entry{replicas: replicas, at: now}
			return list
		}
	}
	return append(list, entry{replicas: replicas, at: now})
}

// scaled adds a change. A scaler without a behavior needs none.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.storeScaleEvent
func (h *history) scaled(behavior *autoscalingv2.HorizontalPodAutoscalerBehavior, from, to int32, now time.Time) {
	switch {
	case behavior == nil:
	case to > from:
		outdate(h.ups, behavior.ScaleUp, now)
		h.ups = addEntry(h.ups, to-from, now)
	default:
		outdate(h.downs, behavior.ScaleDown, now)
		h.downs = addEntry(h.downs, from-to, now)
	}
}

// outdate marks the changes before the longest period of the policies.
//
//upstream:pkg/controller/podautoscaler.markScaleEventsOutdated
//upstream:pkg/controller/podautoscaler.getLongestPolicyPeriod
func outdate(list []entry, r *autoscalingv2.HPAScalingRules, now time.Time) {
	longest := int32(0)
	if r != nil {
		for _, p := range r.Policies {
			longest = max(longest, p.PeriodSeconds)
		}
	}
	for i := range list {
		if list[i].at.Before(now.Add(-time.Duration(longest) * time.Second)) {
			list[i].outdated = true
		}
	}
}

// changes returns the sum of the changes within a period.
//
//upstream:pkg/controller/podautoscaler.getReplicasChangePerPeriod
func changes(list []entry, period time.Duration, now time.Time) (sum int32) {
	for _, e := range list {
		if e.at.After(now.Add(-period)) {
			sum += e.replicas
		}
	}
	return sum
}

// verdict is a number of replicas, with the reason and the message of a condition.
type verdict struct {
	replicas        int32
	reason, message string
}

var withinRange = verdict{reason: "DesiredWithinRange", message: "the desired count is within the acceptable range"}

// stabilize returns the highest recommendation within the window, and adds the present one.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.stabilizeRecommendation
func (h *history) stabilize(recommended int32, now time.Time) verdict {
	v := verdict{recommended, "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"}
	for i := range h.recommendations {
		e := &h.recommendations[i]
		if e.outdated = e.at.Before(now.Add(-stabilizationWindow)); !e.outdated {
			v.replicas = max(v.replicas, e.replicas)
		}
	}
	h.recommendations = addEntry(h.recommendations, recommended, now)
	return v
}

// stabilizeBy returns the replicas between the lowest recommendation within the window for scaling up and the highest
// within the window for scaling down, and adds the present one.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.stabilizeRecommendationWithBehaviors
func (h *history) stabilizeBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, current, recommended int32, now time.Time) verdict {
	window := func(r *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Time {
		if r != nil && r.StabilizationWindowSeconds != nil {
			otherwise = time.Duration(*r.StabilizationWindowSeconds) * time.Second
		}
		return now.Add(-otherwise)
	}
	up, down := window(b.ScaleUp, 0), window(b.ScaleDown, stabilizationWindow)
	lowest, highest := recommended, recommended
	for i := range h.recommendations {
		e := &h.recommendations[i]
		if e.at.After(up) {
			lowest = min(lowest, e.replicas)
		}
		if e.at.After(down) {
			highest = max(highest, e.replicas)
		}
		e.outdated = e.at.Before(up) && e.at.Before(down)
	}
	h.recommendations = addEntry(h.recommendations, recommended, now)
	v := verdict{min(max(current, lowest), highest), "ScaleUpStabilized",
		"recent recommendations were lower than current one, applying the lowest recent recommendation"}
	if recommended < current {
		v.reason, v.message = "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"
	}
	return v
}

// limit returns a recommendation within the range of a scaler without a behavior. It scales to at most twice the replicas,
// or to four.
//
//upstream:pkg/controller/podautoscaler.convertDesiredReplicasWithRules
//upstream:pkg/controller/podautoscaler.calculateScaleUpLimit
func limit(current, recommended, least, most int32) verdict {
	up := int32(max(min(2*int64(current), math.MaxInt32), 4))
	switch {
	case recommended < least:
		return tooFew(least)
	case recommended <= min(most, up):
		v := withinRange
		v.replicas = recommended
		return v
	case most > up:
		return tooFast(up)
	}
	return tooMany(most)
}

func tooFew(n int32) verdict {
	return verdict{n, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
}

func tooMany(n int32) verdict {
	return verdict{n, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
}

func tooFast(n int32) verdict {
	return verdict{n, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
}

// limitBy returns a recommendation within the range and the rate of a scaler with a behavior.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.convertDesiredReplicasWithBehaviorRate
func (h *history) limitBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, current, recommended, least, most int32, now time.Time) verdict {
	switch {
	case recommended > current:
		up := max(h.rate(b.ScaleUp, current, true, now), current)
		if recommended > min(most, up) {
			if most > up {
				return tooFast(up)
			}
			return tooMany(most)
		}
	case recommended < current:
		down := min(h.rate(b.ScaleDown, current, false, now), current)
		if recommended < max(least, down) {
			if least < down {
				return verdict{down, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
			}
			return tooFew(least)
		}
	}
	v := withinRange
	v.replicas = recommended
	return v
}

// rate returns the replicas that the policies allow now, if the target is scaled up or down.
//
//upstream:pkg/controller/podautoscaler.calculateScaleUpLimitWithScalingRules
//upstream:pkg/controller/podautoscaler.calculateScaleDownLimitWithBehaviors
func (h *history) rate(r *autoscalingv2.HPAScalingRules, current int32, up bool, now time.Time) int32 {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	selected := ptr.Deref(r.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if selected == autoscalingv2.DisabledPolicySelect {
		return current
	}
	largest := up == (selected == autoscalingv2.MaxChangePolicySelect) // of the proposals
	result := int32(math.MaxInt32)
	if largest {
		result = math.MinInt32
	}
	for _, p := range r.Policies {
		period := time.Duration(p.PeriodSeconds) * time.Second
		start := current - changes(h.ups, period, now) + changes(h.downs, period, now)
		if proposed := propose(p, start, up); largest == (proposed > result) {
			result = proposed
		}
	}
	return result
}

// propose returns the replicas that a policy allows at the end of a period that begins with some.
func propose(p autoscalingv2.HPAScalingPolicy, start int32, up bool) int32 {
	percent := p.Type == autoscalingv2.PercentScalingPolicy
	switch {
	case percent && up:
		return int32(math.Ceil(float64(start) * (1 + float64(p.Value)/100)))
	case percent:
		return int32(float64(start) * (1 - float64(p.Value)/100))
	case up:
		return start + p.Value
	}
	return start - p.Value
}
