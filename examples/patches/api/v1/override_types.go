package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Method is how an Override writes to its Deployment.
// +kubebuilder:validation:Enum=Update;RetryOnConflict;Merge;MergeWithLock;StrategicMerge;JSON;Apply
type Method string

// The methods; package write says what each does.
const (
	Update          Method = "Update"
	RetryOnConflict Method = "RetryOnConflict"
	Merge           Method = "Merge"
	MergeWithLock   Method = "MergeWithLock"
	StrategicMerge  Method = "StrategicMerge"
	JSON            Method = "JSON"
	Apply           Method = "Apply"
)

// OverrideSpec is the desired state of an Override.
// +kubebuilder:validation:XValidation:rule="!has(self.force) || !self.force || self.method == 'Apply'",message="force is for the method Apply only"
type OverrideSpec struct {
	// Container is the name of the container. If there is none, it is added.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// Image is the image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`

	// Env are environment variables of the container. Others that it has are left alone.
	// +optional
	Env map[string]string `json:"env,omitempty"`

	// Method is how the Deployment is written. It cannot be changed: what was written by another
	// method would not be given up by Apply.
	// +optional
	// +kubebuilder:default=Apply
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Method Method `json:"method,omitempty"`

	// Force takes fields over from other managers. It is for the method Apply; all others do that in
	// any case.
	// +optional
	Force bool `json:"force,omitempty"`
}

// OverrideStatus is the observed state of an Override.
type OverrideStatus struct {
	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the Override. Ready is true when the Deployment is as it says.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// The reasons of the condition Ready.
const (
	// ReasonWritten is the reason if the Deployment is as the Override says.
	ReasonWritten = "Written"
	// ReasonDeploymentNotFound is the reason if there is no Deployment of the Override's name.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonFieldConflict is the reason if other managers own fields with other values.
	ReasonFieldConflict = "FieldConflict"
	// ReasonReconcileFailed is the reason if the API server refuses the write, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.spec.method`
// +kubebuilder:printcolumn:name="Container",type=string,JSONPath=`.spec.container`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Override overrides the image and the environment of a container of the Deployment of the same name,
// which belongs to somebody else. As the names are the same, a Deployment has at most one Override,
// and no two can fight. What an Override has written stays when it is deleted.
type Override struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec OverrideSpec `json:"spec"`
	// +optional
	Status OverrideStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// OverrideList is a list of Overrides.
type OverrideList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Override `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Override{}, &OverrideList{})
}
