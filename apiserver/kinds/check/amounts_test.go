package check

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestAmounts(t *testing.T) {
	var errs field.ErrorList
	spec := Object(&errs).Child("spec")
	IntOrPercent(spec.Child("absent"), nil)
	IntOrPercent(spec.Child("count"), new(intstr.FromInt32(-1)))
	AtMost100Percent(spec.Child("percent"), new(intstr.FromString("101%")))
	AtMost100Percent(spec.Child("all"), new(intstr.FromString("100%")))
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	want := []string{
		"spec.count: Invalid value: -1: must be greater than or equal to 0",
		`spec.percent: Invalid value: "101%": must not be greater than 100%`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
