package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FeatureFlagsSpec is the desired state of FeatureFlags.
type FeatureFlagsSpec struct {
	// Project is the project at the flag service whose flags are copied.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+$`
	Project string `json:"project"`

	// Interval is the time between two looks at the flag service. There is a minimum, as a typing error
	// must not become a loop of requests.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms')",message="must be at least 10ms"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`
}

// FeatureFlagsStatus is the observed state of FeatureFlags.
type FeatureFlagsStatus struct {
	// Revision is the revision of the flags in the ConfigMap, as the flag service calls it. It is empty
	// if there is no ConfigMap.
	// +optional
	Revision string `json:"revision,omitempty"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the FeatureFlags. Synced is true when the ConfigMap was as the
	// flag service wants it at the last look.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionSynced is the type of the condition Synced.
const ConditionSynced = "Synced"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=featureflags,singular=featureflags
// +kubebuilder:printcolumn:name="Project",type=string,JSONPath=`.spec.project`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// FeatureFlags is a copy of the flags of a project, in a ConfigMap of the same name.
type FeatureFlags struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FeatureFlagsSpec `json:"spec"`
	// +optional
	Status FeatureFlagsStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// FeatureFlagsList is a list of FeatureFlags.
type FeatureFlagsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FeatureFlags `json:"items"`
}

func init() {
	SchemeBuilder.Register(&FeatureFlags{}, &FeatureFlagsList{})
}
