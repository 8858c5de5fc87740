package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeletionPolicy is what happens to a Namespace when its ApplicationNamespace is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// Retain keeps the Namespace, without its owner.
	Retain DeletionPolicy = "Retain"
	// Delete deletes the Namespace with everything in it.
	Delete DeletionPolicy = "Delete"
)

// ApplicationNamespaceSpec is the desired state of an ApplicationNamespace.
type ApplicationNamespaceSpec struct {
	// NamespaceName is the name of the Namespace, which is created, or adopted if it exists. It cannot
	// be changed, and cannot be a namespace of Kubernetes itself.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	// +kubebuilder:validation:XValidation:rule="self != 'default' && !self.startsWith('kube-')",message="must not be a namespace of Kubernetes"
	NamespaceName string `json:"namespaceName"`

	// Labels are labels of the Namespace. Others that it has are left alone. The one that Kubernetes
	// sets itself cannot be among them.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && self[k].size() <= 63)",message="must be labels"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/metadata.name' in self)",message="kubernetes.io/metadata.name is set by Kubernetes"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// DeletionPolicy is what happens to the Namespace when this object is deleted: Retain, the
	// default, keeps it; Delete deletes it with everything in it. With Retain, a deletion in the
	// foreground is refused, because it deletes dependents first; with Delete, one that orphans
	// dependents keeps the Namespace.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ApplicationNamespaceStatus is the observed state of an ApplicationNamespace.
type ApplicationNamespaceStatus struct {
	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the ApplicationNamespace. Ready is true when the Namespace
	// exists and this object controls it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// The reasons of the condition Ready.
const (
	// ReasonActive is the reason if the Namespace is controlled by the ApplicationNamespace.
	ReasonActive = "NamespaceActive"
	// ReasonTerminating is the reason while the Namespace is being deleted.
	ReasonTerminating = "NamespaceTerminating"
	// ReasonControlledByAnother is the reason if another object controls the Namespace.
	ReasonControlledByAnother = "ControlledByAnother"
	// ReasonProtected is the reason if the Namespace is one of Kubernetes itself.
	ReasonProtected = "ProtectedNamespace"
	// ReasonReconcileFailed is the reason if the API server refuses a request, which is retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=appns
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespaceName`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.deletionPolicy`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ApplicationNamespace is a Namespace for an application: created or adopted, labelled, and released
// by a policy. It is cluster-scoped because an owner of a Namespace must be.
type ApplicationNamespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ApplicationNamespaceSpec `json:"spec"`
	// +optional
	Status ApplicationNamespaceStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ApplicationNamespaceList is a list of ApplicationNamespaces.
type ApplicationNamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApplicationNamespace `json:"items"`
}

func init() {
	SchemeBuilder.Register(&ApplicationNamespace{}, &ApplicationNamespaceList{})
}
