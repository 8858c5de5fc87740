package check

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestResources checks that the errors of the entries of maps are in order, and that valid resources allocate nothing.
func TestResources(t *testing.T) {
	quantities := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for pair := range slices.Chunk(pairs, 2) {
			list[corev1.ResourceName(pair[0])] = resource.MustParse(pair[1])
		}
		return list
	}
	invalid := &corev1.ResourceRequirements{
		Limits:   quantities("cpu", "1", "memory", "-1", "gpu", "1", "hugepages-2Mi", "1Mi"),
		Requests: quantities("cpu", "2", "hugepages-2Mi", "2Mi", "a.b/c", "500m"),
	}
	container := []string{
		"limits: Required value: Limit must be set for non overcommitable resources",
		`limits[gpu]: Invalid value: "gpu": must be a standard resource for containers`,
		`limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
		`limits[hugepages-2Mi]: Invalid value: "1Mi": 1Mi is not positive integer multiple of hugepages-2Mi`,
		`limits[memory]: Invalid value: "-1": must be greater than or equal to 0`,
		`requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 1Mi`,
		`requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
		`requests[a.b/c]: Invalid value: "500m": must be an integer`,
	}
	pod := slices.Insert(slices.Delete(slices.Clone(container), 1, 2), 7,
		`requests[a.b/c]: Unsupported value: "a.b/c": supported values: "cpu", "hugepages-", "memory"`)
	for range 10 { // the order of a map is random
		for _, c := range []struct {
			pod  bool
			want []string
		}{{false, container}, {true, pod}} {
			var errs field.ErrorList
			Resources(Object(&errs), invalid, c.pod, false)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("pod %v: got  %q\nwant %q", c.pod, got, c.want)
			}
		}
	}
	valid := &corev1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "1"), Requests: quantities("cpu", "1")}
	if n := testing.AllocsPerRun(100, func() {
		var errs field.ErrorList
		Resources(Object(&errs).Child("resources"), valid, false, false)
		if len(errs) > 0 {
			t.Error(errs)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
