// Package v1 is the API of the batch example, version v1 of the group batch.example.com.
// +kubebuilder:object:generate=true
// +groupName=batch.example.com
package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/scheme"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "batch.example.com", Version: "v1"}

	// SchemeBuilder collects the kinds in this package.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme adds the kinds in this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)
