package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SecureStorageSpec is the desired state of a SecureStorage.
type SecureStorageSpec struct {
	// Location is the region of the storage account. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Location string `json:"location"`

	// KeyVault is the name of the key vault with the key. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	KeyVault string `json:"keyVault"`

	// Key is the name of the key that encrypts the storage account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	Key string `json:"key"`
}

// Phase is how far a SecureStorage is. It is for people: the controller computes it from what the
// cloud has, and never reads it.
type Phase string

const (
	// PhaseUnknown is the phase if the cloud does not say what it has.
	PhaseUnknown Phase = "Unknown"
	// PhaseCreatingAccount is the phase until the storage account exists.
	PhaseCreatingAccount Phase = "CreatingAccount"
	// PhaseWaitingForIdentity is the phase until the storage account has an identity.
	PhaseWaitingForIdentity Phase = "WaitingForIdentity"
	// PhaseGrantingAccess is the phase until the identity may use the key vault.
	PhaseGrantingAccess Phase = "GrantingAccess"
	// PhaseEnablingKey is the phase until the storage account is encrypted with the key.
	PhaseEnablingKey Phase = "EnablingKey"
	// PhaseReady is the phase of a storage account that is encrypted with the key.
	PhaseReady Phase = "Ready"
	// PhaseDeleting is the phase while the cloud is cleaned up.
	PhaseDeleting Phase = "Deleting"
)

// SecureStorageStatus is the observed state of a SecureStorage.
type SecureStorageStatus struct {
	// Phase is how far the SecureStorage is.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// AccountName is the name of the storage account.
	// +optional
	AccountName string `json:"accountName,omitempty"`

	// PrincipalID is the identity of the storage account.
	// +optional
	PrincipalID string `json:"principalID,omitempty"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the SecureStorage. Ready is true when the storage account is
	// encrypted with the key, and unknown if the cloud does not say.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// The reasons of the condition Ready.
const (
	// ReasonEncrypted is the reason if the storage account is encrypted with the key.
	ReasonEncrypted = "Encrypted"
	// ReasonWaiting is the reason while the cloud prepares something.
	ReasonWaiting = "Waiting"
	// ReasonRefused is the reason if the cloud refuses a request, which only a change can help.
	ReasonRefused = "Refused"
	// ReasonCloudUnavailable is the reason if the cloud fails.
	ReasonCloudUnavailable = "CloudUnavailable"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ss
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.status.accountName`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.key`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// SecureStorage is a storage account in a cloud that is encrypted with a key of the customer's.
type SecureStorage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SecureStorageSpec `json:"spec"`
	// +optional
	Status SecureStorageStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// SecureStorageList is a list of SecureStorages.
type SecureStorageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SecureStorage `json:"items"`
}

func init() {
	SchemeBuilder.Register(&SecureStorage{}, &SecureStorageList{})
}
