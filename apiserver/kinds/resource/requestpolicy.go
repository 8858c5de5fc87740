package resource

import (
	"math"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// requestPolicy checks the policy for requests of a capacity.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicy
func requestPolicy(at check.Field, capacity resource.Quantity, p *resourcev1.CapacityRequestPolicy) {
	fallback := at.Child("default")
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		at.Forbidden(`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)
	case len(p.ValidValues) > 0 && p.Default == nil:
		fallback.Required("required when validValues is defined")
	case p.ValidRange != nil && p.Default == nil:
		fallback.Required("required when validRange is defined")
	case len(p.ValidValues) > 0:
		validAmounts(at.Child("validValues"), capacity, *p.Default, p.ValidValues)
	case p.ValidRange != nil:
		validRange(at.Child("validRange"), capacity, *p.Default, p.ValidRange)
	}
}

// maxRequestAmounts is the limit of validValues.
const maxRequestAmounts = 10

// validAmounts checks that amounts are sorted and distinct, and include the default.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyValidValues
//upstream:pkg/apis/resource/validation.validateValidRequestValues
func validAmounts(at check.Field, capacity, fallback resource.Quantity, amounts []resource.Quantity) {
	for i := 1; i < len(amounts); i++ {
		if amounts[i-1].Cmp(amounts[i]) > 0 {
			at.Index(i).Invalid(amounts[i].String(), "values must be sorted in ascending order")
		}
	}
	found := false
	keyed(at, amounts, maxRequestAmounts, func(at check.Field, q *resource.Quantity) {
		found = found || q.Cmp(fallback) == 0
		if q.Cmp(capacity) > 0 {
			at.Invalid(q.String(), "option is larger than capacity value: "+capacity.String())
		}
	}, func(q *resource.Quantity) string { return fieldrules.Decimal(q.Value()) })
	if !found {
		at.Invalid(fallback.String(), "default value is not valid according to the requestPolicy")
	}
}

// validRange checks that the default is in the range, and the range in the capacity.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyRange
func validRange(at check.Field, capacity, fallback resource.Quantity, r *resourcev1.CapacityRequestPolicyRange) {
	if r.Min == nil {
		at.Child("min").Required("required when validRange is defined")
		return
	}
	step := at.Child("step")
	refuse := func(bad bool, f check.Field, value *resource.Quantity, why string, limit resource.Quantity) {
		if bad {
			f.Invalid(value.String(), why+limit.String())
		}
	}
	refuse(r.Min.Cmp(capacity) > 0, at.Child("min"), r.Min, "min is larger than capacity value: ", capacity)
	refuse(fallback.Cmp(*r.Min) < 0, at.Child("default"), &fallback, "default is less than min: ", *r.Min)
	if r.Max != nil {
		refuse(r.Min.Cmp(*r.Max) > 0, at.Child("max"), r.Min, "min is larger than max: ", *r.Max)
		refuse(r.Max.Cmp(capacity) > 0, at.Child("max"), r.Max, "max is larger than capacity value: ", capacity)
		refuse(fallback.Cmp(*r.Max) > 0, at.Child("default"), &fallback, "default is more than max: ", *r.Max)
	}
	switch {
	case r.Step == nil:
		return
	case r.Step.Sign() <= 0:
		step.Invalid(r.Step.String(), "must be greater than zero")
		return
	}
	next := r.Min.DeepCopy()
	next.Add(*r.Step)
	refuse(next.Cmp(capacity) > 0, step, r.Step, "one step "+next.String()+" is larger than capacity value: ", capacity)
	counts := countable(at.Child("default"), &fallback)
	counts = countable(at.Child("min"), r.Min) && counts
	counts = countable(at.Child("max"), r.Max) && counts
	if countable(step, r.Step) && counts {
		onStep(step, &fallback, r)
		onStep(step, r.Max, r)
	}
}

// countable checks that the integer value of an amount of a range, if there is one, is in 0 to 2⁶³-1.
//
//upstream:pkg/apis/resource/validation.validateInt64Range
func countable(at check.Field, q *resource.Quantity) bool {
	switch {
	case q == nil:
	case q.Sign() < 0:
		at.Invalid(q.String(), apivalidation.IsNegativeErrorMsg)
		return false
	case q.CmpInt64(math.MaxInt64) > 0:
		at.Invalid(q.String(), "must not be larger than 9223372036854775807")
		return false
	}
	return true
}

// onStep checks that a value, if there is one, is some steps above the minimum of a range. Fractions are rounded up, as
// kube-apiserver does without the feature DRAFractionalCapacityRange.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyRangeStep
func onStep(at check.Field, q *resource.Quantity, r *resourcev1.CapacityRequestPolicyRange) {
	if q != nil && (q.Value()-r.Min.Value())%r.Step.Value() != 0 {
		at.Invalidf(q.String(), "value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String())
	}
}
