package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns the warnings for a workload that gives its pods its name: a new one is warned about the
// name, and one with a new generation about its spec.
//
//upstream:pkg/registry/apps/deployment.deploymentStrategy.WarningsOnCreate
//upstream:pkg/registry/apps/deployment.deploymentStrategy.WarningsOnUpdate
func Warnings[T interface {
	comparable
	metav1.Object
}](obj, old T, spec func() []string) []string {
	var none T
	if old == none {
		return append(nameWarnings(obj.GetName()), spec()...)
	}
	if obj.GetGeneration() == old.GetGeneration() {
		return nil
	}
	return spec()
}

func nameWarnings(name string) []string {
	messages := validation.IsDNS1123Label(name)
	if len(messages) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising "+
		"behavior; a DNS label is recommended: %v", messages)}
}

// ClaimWarnings returns the warnings for the spec of a PersistentVolumeClaim.
//
//upstream:pkg/api/persistentvolumeclaim.GetWarningsForPersistentVolumeClaimSpec
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var warnings []string
	for _, part := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"requests", s.Resources.Requests}, {"limits", s.Resources.Limits}} {
		if q := part.resources[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", part.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return warnings
}
