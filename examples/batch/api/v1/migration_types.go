package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MigrationSpec is the desired state of a Migration. What is executed can be changed only together
// with a greater attempt.
// +kubebuilder:validation:XValidation:rule="self.attempt >= oldSelf.attempt",message="attempt must not decrease"
// +kubebuilder:validation:XValidation:rule="self.attempt > oldSelf.attempt || self.image == oldSelf.image",message="image is immutable unless attempt increases"
// +kubebuilder:validation:XValidation:rule="self.attempt > oldSelf.attempt || (has(self.command) ? self.command : []) == (has(oldSelf.command) ? oldSelf.command : [])",message="command is immutable unless attempt increases"
type MigrationSpec struct {
	// Image is the image of the container that does the work.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`

	// Command is the command of the container, by default the image's command.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// PodAnnotations are the annotations of the Pod.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// After has the names of the Migrations of the namespace that must have succeeded before this one
	// starts.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	After []string `json:"after,omitempty"`

	// Suspend keeps the Migration from starting. One that has started is not interrupted.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Attempt is increased by a user to try again after a failure.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=999
	// +kubebuilder:default=1
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// TTLSecondsAfterFinished is after how long the Job is deleted when it has finished. By default it
	// stays as long as the Migration.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// Result is how a Migration has ended.
// +kubebuilder:validation:Enum=Succeeded;Failed
type Result string

// The results.
const (
	Succeeded Result = "Succeeded"
	Failed    Result = "Failed"
)

// MigrationStatus is the observed state of a Migration.
type MigrationStatus struct {
	// Attempt is the attempt that the result and the conditions are of.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// Result is how the attempt has ended.
	// +optional
	Result Result `json:"result,omitempty"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the Migration. Complete is true when it has succeeded, and
	// stays true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionComplete is the type of the condition Complete.
const ConditionComplete = "Complete"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.spec.attempt`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name must have at most 52 characters, because the Job has a suffix"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.after) || !(self.metadata.name in self.spec.after)",message="a Migration cannot wait for itself"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.result) || oldSelf.status.result != 'Succeeded' || self.spec.attempt == oldSelf.spec.attempt",message="the Migration has succeeded, and is not executed again"

// Migration is a task that is executed once and never again.
type Migration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec MigrationSpec `json:"spec"`
	// +optional
	Status MigrationStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// MigrationList is a list of Migrations.
type MigrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Migration `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Migration{}, &MigrationList{})
}
