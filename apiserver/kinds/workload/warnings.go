package workload

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
