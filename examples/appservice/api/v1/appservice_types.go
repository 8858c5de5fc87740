package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AppServiceSpec is the desired state of an AppService.
type AppServiceSpec struct {
	// Replicas is the number of pods. There are at least two, so that one can fail.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`

	// Image is the container image that the pods run.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
}

// AppServiceStatus is the observed state of an AppService.
type AppServiceStatus struct {
	// ReadyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the AppService. Ready is true when all replicas are ready
	// and run the image.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=aps
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",message="the name must be one that a Service can have: at most 63 lower case letters, digits and hyphens, a letter first"

// AppService is a web application: a number of pods that run one image, behind one address.
// The Deployment and the Service have its name.
type AppService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AppServiceSpec `json:"spec"`
	// +optional
	Status AppServiceStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// AppServiceList is a list of AppServices.
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppService `json:"items"`
}

func init() {
	SchemeBuilder.Register(&AppService{}, &AppServiceList{})
}
