package check

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// IntOrPercent checks a number that is not negative, or a percentage. The value may be absent.
func IntOrPercent(f Field, v *intstr.IntOrString) {
	f.Report(fieldrules.IntOrPercent(v, &f.Path, "")...)
}

// AtMost100Percent checks that a percentage, which may be absent, is not above a hundred.
func AtMost100Percent(f Field, v *intstr.IntOrString) {
	f.Report(fieldrules.AtMost100Percent(v, &f.Path, "")...)
}
