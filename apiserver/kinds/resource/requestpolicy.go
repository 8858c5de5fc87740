package resource

import (
	"fmt"
	"math"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// requestPolicy checks the policy for requests of a capacity.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicy
func requestPolicy(capacity resource.Quantity, p *resourcev1.CapacityRequestPolicy, w *fieldrules.Path) field.ErrorList {
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(w.Field(), `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(w.ChildField("default"), "required when validValues is defined")}
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(w.ChildField("default"), "required when validRange is defined")}
	case len(p.ValidValues) > 0:
		at := w.Child("validValues")
		return validAmounts(capacity, *p.Default, p.ValidValues, &at)
	case p.ValidRange != nil:
		at := w.Child("validRange")
		return validRange(capacity, *p.Default, p.ValidRange, &at)
	}
	return nil
}

// maxRequestAmounts is the limit of validValues.
const maxRequestAmounts = 10

// validAmounts checks that amounts are sorted and distinct, and include the default.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyValidValues
//upstream:pkg/apis/resource/validation.validateValidRequestValues
func validAmounts(capacity, fallback resource.Quantity, amounts []resource.Quantity, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(amounts); i++ {
		if at := w.Index(i); amounts[i-1].Cmp(amounts[i]) > 0 {
			errs = append(errs, field.Invalid(at.Field(), amounts[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, keyed(amounts, maxRequestAmounts, w, func(q *resource.Quantity, w *fieldrules.Path) field.ErrorList {
		found = found || q.Cmp(fallback) == 0
		if q.Cmp(capacity) <= 0 {
			return nil
		}
		return field.ErrorList{field.Invalid(w.Field(), q.String(), "option is larger than capacity value: "+capacity.String())}
	}, func(q *resource.Quantity) string { return fieldrules.Decimal(q.Value()) })...)
	if !found {
		errs = append(errs, field.Invalid(w.Field(), fallback.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// validRange checks that the default is in the range, and the range in the capacity.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyRange
func validRange(capacity, fallback resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, w *fieldrules.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(w.ChildField("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	check := func(bad bool, name string, value *resource.Quantity, why string, limit resource.Quantity) {
		if bad {
			errs = append(errs, field.Invalid(w.ChildField(name), value.String(), why+limit.String()))
		}
	}
	check(r.Min.Cmp(capacity) > 0, "min", r.Min, "min is larger than capacity value: ", capacity)
	check(fallback.Cmp(*r.Min) < 0, "default", &fallback, "default is less than min: ", *r.Min)
	if r.Max != nil {
		check(r.Min.Cmp(*r.Max) > 0, "max", r.Min, "min is larger than max: ", *r.Max)
		check(r.Max.Cmp(capacity) > 0, "max", r.Max, "max is larger than capacity value: ", capacity)
		check(fallback.Cmp(*r.Max) > 0, "default", &fallback, "default is more than max: ", *r.Max)
	}
	switch {
	case r.Step == nil:
		return errs
	case r.Step.Sign() <= 0:
		return append(errs, field.Invalid(w.ChildField("step"), r.Step.String(), "must be greater than zero"))
	}
	next := r.Min.DeepCopy()
	next.Add(*r.Step)
	check(next.Cmp(capacity) > 0, "step", r.Step, "one step "+next.String()+" is larger than capacity value: ", capacity)
	var outside field.ErrorList
	for _, amount := range []struct {
		name  string
		value *resource.Quantity
	}{{"default", &fallback}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}} {
		if amount.value != nil {
			outside = append(outside, countable(*amount.value, w, amount.name)...)
		}
	}
	if len(outside) > 0 {
		return append(errs, outside...)
	}
	errs = append(errs, onStep(&fallback, r, w)...)
	return append(errs, onStep(r.Max, r, w)...)
}

// countable checks that the integer value of an amount of a range is in 0 to 2⁶³-1.
//
//upstream:pkg/apis/resource/validation.validateInt64Range
func countable(q resource.Quantity, w *fieldrules.Path, name string) field.ErrorList {
	switch {
	case q.Sign() < 0:
		return field.ErrorList{field.Invalid(w.ChildField(name), q.String(), apivalidation.IsNegativeErrorMsg)}
	case q.CmpInt64(math.MaxInt64) > 0:
		return field.ErrorList{field.Invalid(w.ChildField(name), q.String(), "must not be larger than 9223372036854775807")}
	}
	return nil
}

// onStep checks that a value, if there is one, is some steps above the minimum of a range. Fractions are rounded up, as
// kube-apiserver does without the feature DRAFractionalCapacityRange.
//
//upstream:pkg/apis/resource/validation.validateRequestPolicyRangeStep
func onStep(q *resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, w *fieldrules.Path) field.ErrorList {
	if q == nil {
		return nil
	}
	if (q.Value()-r.Min.Value())%r.Step.Value() == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.ChildField("step"), q.String(),
		fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String()))}
}
