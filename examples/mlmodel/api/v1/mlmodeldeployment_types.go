package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MLModelDeploymentSpec is the desired state of an MLModelDeployment.
type MLModelDeploymentSpec struct {
	// Model is the URI from which the servers load the model.
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9+.-]*://.+$`
	// +kubebuilder:validation:MaxLength=1024
	Model string `json:"model"`

	// Image is the container image of the model server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`

	// Replicas is the number of servers.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}

// MLModelDeploymentStatus is the observed state of an MLModelDeployment.
type MLModelDeploymentStatus struct {
	// URL is the address of the model in the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// Replicas is the number of servers that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// ReadyReplicas is the number of servers that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Selector selects the pods of the servers, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the MLModelDeployment. Ready is true when all servers are
	// ready and serve the model of the spec.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=mld
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",message="the name must be one that a Service can have: at most 63 lower case letters, digits and hyphens, a letter first"

// MLModelDeployment is a machine learning model that is served by a number of pods behind one
// address. The Deployment and the Service have its name.
type MLModelDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec MLModelDeploymentSpec `json:"spec"`
	// +optional
	Status MLModelDeploymentStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// MLModelDeploymentList is a list of MLModelDeployments.
type MLModelDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MLModelDeployment `json:"items"`
}

func init() {
	SchemeBuilder.Register(&MLModelDeployment{}, &MLModelDeploymentList{})
}
