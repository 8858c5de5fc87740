package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// The limits of indexed jobs and of policies.
const (
	maxParallelism          = 100_000
	maxFailedIndexes        = 100_000
	manyCompletions         = 100_000
	maxManyParallelism      = 10_000
	maxManyFailedIndexes    = 10_000
	maxPolicyRules          = 20
	maxPolicyExitCodes      = 255
	maxSuccessIndexesLength = 64 << 10
)

// indexedLimits checks the fields that depend on the completion mode.
//
//upstream:pkg/apis/batch/validation.validateJobSpec
func indexedLimits(at check.Field, s *batchv1.JobSpec) {
	parallelism, maxFailed := at.Child("parallelism"), at.Child("maxFailedIndexes")
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		at.Child("backoffLimitPerIndex").Required("when maxFailedIndexes is specified")
	}
	if s.MaxFailedIndexes != nil && nonIndexed(s) {
		maxFailed.Invalid(*s.MaxFailedIndexes, requiresIndexed)
	}
	if !indexed(s) {
		return
	}
	atMost(parallelism, s.Parallelism, maxParallelism, " when completion mode is Indexed")
	if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
		maxFailed.Invalid(*s.MaxFailedIndexes, "must be less than or equal to completions")
	}
	atMost(maxFailed, s.MaxFailedIndexes, maxFailedIndexes, "")
	if s.Completions == nil || *s.Completions <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if s.MaxFailedIndexes == nil {
		maxFailed.Required(fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	}
	when := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
	atMost(parallelism, s.Parallelism, maxManyParallelism, when)
	atMost(maxFailed, s.MaxFailedIndexes, maxManyFailedIndexes, when)
}

// atMost checks that a number, if present, is not above a limit. The suffix ends the message.
func atMost(at check.Field, n *int32, limit int32, suffix string) {
	if n != nil && *n > limit {
		at.Invalidf(*n, "must be less than or equal to %d%s", limit, suffix)
	}
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicy
func failurePolicy(at check.Field, s *batchv1.JobSpec) {
	rules := at.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxPolicyRules {
		rules.TooMany(n, maxPolicyRules)
	}
	var containers fieldrules.Seen[string]
	for _, c := range slices.Concat(s.Template.Spec.InitContainers, s.Template.Spec.Containers) {
		containers.Add(c.Name)
	}
	for i := range s.PodFailurePolicy.Rules {
		failureRule(rules.Index(i), s, &s.PodFailurePolicy.Rules[i], &containers)
	}
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRule
func failureRule(at check.Field, s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, containers *fieldrules.Seen[string]) {
	if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
		at.Child("action").Invalid(r.Action, "requires the backoffLimitPerIndex to be set")
	} else {
		required(at.Child("action"), r.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
			batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	}
	if r.OnExitCodes != nil {
		exitCodes(at.Child("onExitCodes"), r.OnExitCodes, containers)
	}
	podConditions(at.Child("onPodConditions"), r.OnPodConditions)
	switch conditions := len(r.OnPodConditions) > 0; {
	case r.OnExitCodes != nil && conditions:
		at.Invalid(field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
	case r.OnExitCodes == nil && !conditions:
		at.Invalid(field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
	}
}

// required checks that a value is present and supported.
func required[S ~string](at check.Field, value S, supported ...S) {
	if value == "" {
		at.Required(fmt.Sprintf("valid values: %q", supported))
	} else {
		check.OneOf(at, value, supported...)
	}
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRuleOnPodConditions
func podConditions(at check.Field, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) {
	if n := len(patterns); n > maxPolicyRules {
		at.TooMany(n, maxPolicyRules)
	}
	for i, p := range patterns {
		pattern := at.Index(i)
		for _, message := range validation.IsQualifiedName(string(p.Type)) {
			pattern.Child("type").Invalid(string(p.Type), message)
		}
		required(pattern.Child("status"), p.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
	}
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRuleOnExitCodes
func exitCodes(at check.Field, r *batchv1.PodFailurePolicyOnExitCodesRequirement, containers *fieldrules.Seen[string]) {
	required(at.Child("operator"), r.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if r.ContainerName != nil && !containers.Has(*r.ContainerName) {
		at.Child("containerName").Invalid(*r.ContainerName, "must be one of the container or initContainer names in the pod template")
	}
	values := at.Child("values")
	switch n := len(r.Values); {
	case n == 0:
		values.Invalid(r.Values, "at least one value is required")
	case n > maxPolicyExitCodes:
		values.TooMany(n, maxPolicyExitCodes)
	}
	var codes fieldrules.Seen[int32]
	for i, code := range r.Values {
		if code == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			values.Index(i).Invalid(code, "must not be 0 for the In operator")
		}
		if !codes.Add(code) {
			values.Index(i).Duplicate(code)
		}
	}
	if !slices.IsSorted(r.Values) {
		values.Invalid(r.Values, "must be ordered")
	}
}

// successPolicy checks the success policy of an indexed job with completions.
//
//upstream:pkg/apis/batch/validation.validateSuccessPolicy
func successPolicy(at check.Field, s *batchv1.JobSpec) {
	rules := at.Child("rules")
	switch n := len(s.SuccessPolicy.Rules); {
	case n == 0:
		rules.Required("at least one rules must be specified when the successPolicy is specified")
	case n > maxPolicyRules:
		rules.TooMany(n, maxPolicyRules)
	}
	for i := range s.SuccessPolicy.Rules {
		successRule(rules.Index(i), &s.SuccessPolicy.Rules[i], *s.Completions)
	}
}

//upstream:pkg/apis/batch/validation.validateSuccessPolicyRule
func successRule(at check.Field, r *batchv1.SuccessPolicyRule, completions int32) {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		at.Required("at least one of succeededCount or succeededIndexes must be specified")
	}
	count, indexes := at.Child("succeededCount"), int32(0)
	if text := r.SucceededIndexes; text != nil {
		list := at.Child("succeededIndexes")
		if len(*text) > maxSuccessIndexesLength {
			list.TooLong(maxSuccessIndexesLength)
		}
		var err error
		if indexes, err = countIndexes(*text, completions); err != nil {
			list.Invalidf(*text, "error parsing succeededIndexes: %v", err)
		}
	}
	check.NonNegative(count, r.SucceededCount)
	atMost(count, r.SucceededCount, completions, " (the number of specified completions)")
	if r.SucceededIndexes != nil {
		atMost(count, r.SucceededCount, indexes, " (the number of indexes in the specified succeededIndexes field)")
	}
}

// countIndexes returns the number of indexes in a list such as 1,3-5. The indexes must be in order, and below
// completions.
//
//upstream:pkg/apis/batch/validation.validateIndexesFormat
func countIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	var count int32
	last := int32(-1)
	for text := range strings.SplitSeq(list, ",") {
		i, err := parseInterval(text, completions)
		if err != nil {
			return 0, err
		}
		if last >= i.first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, i.first)
		}
		last = i.last
		count += i.last - i.first + 1
	}
	return count, nil
}

// interval is a range of indexes.
type interval struct{ first, last int32 }

//upstream:pkg/apis/batch/validation.parseIndexInterval
func parseInterval(text string, completions int32) (interval, error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	first, err := index(parts[0], completions)
	if err != nil || len(parts) == 1 {
		return interval{first, first}, err
	}
	last, err := index(parts[1], completions)
	if err == nil && first >= last {
		err = fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return interval{first, last}, err
}

// validIntervals returns the intervals of a list without the invalid ones.
func validIntervals(list string, completions int32) []interval {
	var intervals []interval
	for text := range strings.SplitSeq(list, ",") {
		if i, err := parseInterval(text, completions); err == nil {
			intervals = append(intervals, i)
		}
	}
	return intervals
}

func index(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(n), nil
}

//upstream:pkg/apis/batch/validation.validateJobStatus
func uncountedPods(at check.Field, u *batchv1.UncountedTerminatedPods) {
	var seen fieldrules.Seen[types.UID]
	each := func(list check.Field, uids []types.UID) {
		for i, uid := range uids {
			switch {
			case uid == "":
				list.Index(i).Invalid(uid, "must not be empty")
			case !seen.Add(uid):
				list.Index(i).Duplicate(uid)
			}
		}
	}
	each(at.Child("succeeded"), u.Succeeded)
	each(at.Child("failed"), u.Failed)
}
