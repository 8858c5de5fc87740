package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestartPolicy is what happens when a Pod fails.
// +kubebuilder:validation:Enum=ReplaceFailed;RestartAll
type RestartPolicy string

// The restart policies.
const (
	// ReplaceFailed replaces the Pod that has failed; the others go on.
	ReplaceFailed RestartPolicy = "ReplaceFailed"
	// RestartAll replaces all Pods, also the Pods of workers that have succeeded.
	RestartAll RestartPolicy = "RestartAll"
)

// TrainingJobSpec is the desired state of a TrainingJob.
// +kubebuilder:validation:XValidation:rule="(has(self.nodeSelector) ? self.nodeSelector : {}) == (has(oldSelf.nodeSelector) ? oldSelf.nodeSelector : {})",message="nodeSelector is immutable"
type TrainingJobSpec struct {
	// Image is the image of the containers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Image string `json:"image"`

	// Workers is the number of workers. The TrainingJob is complete when all have succeeded.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Workers int32 `json:"workers"`

	// ParameterServers is the number of parameter servers, which run as long as the workers.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	// +kubebuilder:default=1
	ParameterServers int32 `json:"parameterServers"`

	// RestartPolicy is what happens when a Pod fails, is deleted, or its node is lost.
	// +kubebuilder:default=ReplaceFailed
	// +optional
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`

	// BackoffLimit is the number of restarts after which the TrainingJob fails.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=3
	BackoffLimit int32 `json:"backoffLimit"`

	// NodeGracePeriod is how long a node may be not ready before its Pods are taken for lost. They are
	// then deleted by force, because such a node does not confirm their end.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	// +optional
	NodeGracePeriod metav1.Duration `json:"nodeGracePeriod,omitempty"`

	// NodeSelector selects the nodes of the Pods.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && self[k].size() <= 63)",message="must be labels"
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// WorkerAnnotations are annotations of the workers' Pods.
	// +optional
	WorkerAnnotations map[string]string `json:"workerAnnotations,omitempty"`
}

// PodPhase is how far the Pod of a worker or parameter server has come.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Replaced
type PodPhase string

// The phases.
const (
	PodPending   PodPhase = "Pending"
	PodRunning   PodPhase = "Running"
	PodSucceeded PodPhase = "Succeeded"
	// PodFailed is the phase of a Pod that has failed and is not replaced.
	PodFailed PodPhase = "Failed"
	// PodReplaced is the phase of a Pod that is deleted so that another one can take its name.
	PodReplaced PodPhase = "Replaced"
)

// PodStatus is the last Pod of a worker or parameter server that the controller has observed.
type PodStatus struct {
	// Name is the name of the Pod, which its successors have too.
	Name string `json:"name"`
	// UID is the UID of the Pod, which its successors do not have.
	UID types.UID `json:"uid"`
	// Phase is how far the Pod has come.
	Phase PodPhase `json:"phase"`
}

// TrainingJobStatus is the observed state of a TrainingJob.
type TrainingJobStatus struct {
	// Active is the number of Pods that are pending or running.
	// +optional
	Active int32 `json:"active"`

	// Succeeded is the number of workers that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Restarts is the number of restarts: of Pods, or with RestartAll of the whole TrainingJob.
	// +optional
	Restarts int32 `json:"restarts"`

	// Pods has the Pods. Each is recorded here before it is replaced, so a restart is counted once
	// although the Pod that shows it is deleted.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pods []PodStatus `json:"pods,omitempty"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the TrainingJob. Running is true while all Pods that have not
	// succeeded run, and false with the reason NameTaken while a Pod or Service of somebody else has a
	// name. Complete and Failed are true when it has ended, and stay true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The types of conditions.
const (
	ConditionRunning  = "Running"
	ConditionComplete = "Complete"
	ConditionFailed   = "Failed"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Workers",type=integer,JSONPath=`.spec.workers`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Failed",type=string,JSONPath=`.status.conditions[?(@.type=="Failed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$')",message="the name must be a DNS label of at most 50 characters that starts with a letter, because of the Service"

// TrainingJob is the training of a model by workers that share parameter servers.
type TrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec TrainingJobSpec `json:"spec"`
	// +optional
	Status TrainingJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// TrainingJobList is a list of TrainingJobs.
type TrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingJob `json:"items"`
}

func init() {
	SchemeBuilder.Register(&TrainingJob{}, &TrainingJobList{})
}
