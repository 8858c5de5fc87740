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
func indexedLimits(s *batchv1.JobSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(fldPath.ChildField("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if s.CompletionMode == nil || *s.CompletionMode != batchv1.IndexedCompletion {
		if s.MaxFailedIndexes != nil && (s.CompletionMode == nil || *s.CompletionMode == batchv1.NonIndexedCompletion) {
			errs = append(errs, field.Invalid(fldPath.ChildField("maxFailedIndexes"), *s.MaxFailedIndexes,
				"requires indexed completion mode"))
		}
		return errs
	}
	atMost := func(n *int32, name string, limit int32, when string) {
		if n != nil && *n > limit {
			errs = append(errs, field.Invalid(fldPath.ChildField(name), *n,
				fmt.Sprintf("must be less than or equal to %d%s", limit, when)))
		}
	}
	atMost(s.Parallelism, "parallelism", maxParallelism, " when completion mode is "+string(batchv1.IndexedCompletion))
	if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
		errs = append(errs, field.Invalid(fldPath.ChildField("maxFailedIndexes"), *s.MaxFailedIndexes,
			"must be less than or equal to completions"))
	}
	atMost(s.MaxFailedIndexes, "maxFailedIndexes", maxFailedIndexes, "")
	if s.Completions != nil && *s.Completions > manyCompletions && s.BackoffLimitPerIndex != nil {
		if s.MaxFailedIndexes == nil {
			errs = append(errs, field.Required(fldPath.ChildField("maxFailedIndexes"),
				fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
		}
		when := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
		atMost(s.Parallelism, "parallelism", maxManyParallelism, when)
		atMost(s.MaxFailedIndexes, "maxFailedIndexes", maxManyFailedIndexes, when)
	}
	return errs
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicy
//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRule
func failurePolicy(s *batchv1.JobSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := fldPath.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxPolicyRules {
		errs = append(errs, field.TooMany(at, n, maxPolicyRules))
	}
	var containers fieldrules.Seen[string]
	for _, c := range slices.Concat(s.Template.Spec.InitContainers, s.Template.Spec.Containers) {
		containers.Add(c.Name)
	}
	for i := range s.PodFailurePolicy.Rules {
		rule, path := &s.PodFailurePolicy.Rules[i], at.Index(i)
		errs = append(errs, failureAction(s, rule.Action, path.Child("action"))...)
		if rule.OnExitCodes != nil {
			errs = append(errs, exitCodes(rule.OnExitCodes, &containers, path.Child("onExitCodes"))...)
		}
		errs = append(errs, podConditions(rule.OnPodConditions, path.Child("onPodConditions"))...)
		switch conditions := len(rule.OnPodConditions) > 0; {
		case rule.OnExitCodes != nil && conditions:
			errs = append(errs, field.Invalid(path, field.OmitValueType{},
				"specifying both OnExitCodes and OnPodConditions is not supported"))
		case rule.OnExitCodes == nil && !conditions:
			errs = append(errs, field.Invalid(path, field.OmitValueType{},
				"specifying one of OnExitCodes and OnPodConditions is required"))
		}
	}
	return errs
}

func failureAction(s *batchv1.JobSpec, action batchv1.PodFailurePolicyAction, path *field.Path) field.ErrorList {
	actions := []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore}
	switch {
	case action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
		return field.ErrorList{field.Invalid(path, action, "requires the backoffLimitPerIndex to be set")}
	default:
		return required(action, path, actions)
	}
}

// required checks that a value is set and supported.
func required[S ~string](value S, path *field.Path, supported []S) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", supported))}
	case !slices.Contains(supported, value):
		return field.ErrorList{field.NotSupported(path, value, supported)}
	}
	return nil
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRuleOnPodConditions
func podConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(patterns); n > maxPolicyRules {
		errs = append(errs, field.TooMany(path, n, maxPolicyRules))
	}
	for i, p := range patterns {
		for _, message := range validation.IsQualifiedName(string(p.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("type"), string(p.Type), message))
		}
		errs = append(errs, required(p.Status, path.Index(i).Child("status"),
			[]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown})...)
	}
	return errs
}

//upstream:pkg/apis/batch/validation.validatePodFailurePolicyRuleOnExitCodes
func exitCodes(r *batchv1.PodFailurePolicyOnExitCodesRequirement, containers *fieldrules.Seen[string], path *field.Path) field.ErrorList {
	errs := required(r.Operator, path.Child("operator"),
		[]batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn})
	if r.ContainerName != nil && !containers.Has(*r.ContainerName) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *r.ContainerName,
			"must be one of the container or initContainer names in the pod template"))
	}
	at := path.Child("values")
	switch n := len(r.Values); {
	case n == 0:
		errs = append(errs, field.Invalid(at, r.Values, "at least one value is required"))
	case n > maxPolicyExitCodes:
		errs = append(errs, field.TooMany(at, n, maxPolicyExitCodes))
	}
	var codes fieldrules.Seen[int32]
	for i, code := range r.Values {
		if code == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(at.Index(i), code, "must not be 0 for the In operator"))
		}
		if !codes.Add(code) {
			errs = append(errs, field.Duplicate(at.Index(i), code))
		}
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(at, r.Values, "must be ordered"))
	}
	return errs
}

// successPolicy checks the success policy of an indexed job with completions.
//
//upstream:pkg/apis/batch/validation.validateSuccessPolicy
//upstream:pkg/apis/batch/validation.validateSuccessPolicyRule
func successPolicy(s *batchv1.JobSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := fldPath.Child("rules")
	switch n := len(s.SuccessPolicy.Rules); {
	case n == 0:
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	case n > maxPolicyRules:
		errs = append(errs, field.TooMany(at, n, maxPolicyRules))
	}
	for i, rule := range s.SuccessPolicy.Rules {
		path := at.Index(i)
		if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
			errs = append(errs, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
		}
		var indexes int32
		if rule.SucceededIndexes != nil {
			var err error
			if len(*rule.SucceededIndexes) > maxSuccessIndexesLength {
				errs = append(errs, field.TooLong(path.Child("succeededIndexes"), "", maxSuccessIndexesLength))
			}
			if indexes, err = countIndexes(*rule.SucceededIndexes, *s.Completions); err != nil {
				errs = append(errs, field.Invalid(path.Child("succeededIndexes"), *rule.SucceededIndexes,
					fmt.Sprintf("error parsing succeededIndexes: %v", err)))
			}
		}
		if rule.SucceededCount == nil {
			continue
		}
		count, countPath := *rule.SucceededCount, path.Child("succeededCount")
		if count < 0 {
			errs = append(errs, field.Invalid(countPath, int64(count), "must be greater than or equal to 0"))
		}
		if count > *s.Completions {
			errs = append(errs, field.Invalid(countPath, count,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *s.Completions)))
		}
		if rule.SucceededIndexes != nil && count > indexes {
			errs = append(errs, field.Invalid(countPath, count, fmt.Sprintf(
				"must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", indexes)))
		}
	}
	return errs
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
func uncountedPods(u *batchv1.UncountedTerminatedPods, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen fieldrules.Seen[types.UID]
	check := func(uids []types.UID, path *field.Path) {
		for i, uid := range uids {
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(path.Index(i), uid, "must not be empty"))
			case !seen.Add(uid):
				errs = append(errs, field.Duplicate(path.Index(i), uid))
			}
		}
	}
	check(u.Succeeded, path.Child("succeeded"))
	check(u.Failed, path.Child("failed"))
	return errs
}
