package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Engine is a database server.
// +kubebuilder:validation:Enum=postgres;mariadb
type Engine string

// The engines.
const (
	Postgres Engine = "postgres"
	MariaDB  Engine = "mariadb"
)

// DatabaseSpec is the desired state of a Database.
type DatabaseSpec struct {
	// Engine is the database server. It cannot be changed, because no engine reads the data of
	// another.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="engine is immutable"
	Engine Engine `json:"engine"`

	// Version is the version of the engine, such as 17.5. It can be raised, which takes a snapshot
	// and then replaces one instance after the other. It cannot be lowered.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}\.[0-9]{1,4}$`
	// +kubebuilder:validation:MaxLength=9
	// +kubebuilder:validation:XValidation:rule="int(self.split('.')[0]) * 10000 + int(self.split('.')[1]) >= int(oldSelf.split('.')[0]) * 10000 + int(oldSelf.split('.')[1])",message="version cannot be lowered: an older server does not read the data of a newer one"
	Version string `json:"version"`

	// Replicas is the number of instances. One is the primary, and the others are its replicas.
	// There are at least two, so that one can be replaced while another serves.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=9
	Replicas int32 `json:"replicas"`

	// Storage is the size of the volume of each instance. It cannot be changed, because the claim
	// templates of a StatefulSet cannot.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="storage is immutable"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="storage must be greater than zero"
	Storage resource.Quantity `json:"storage"`

	// SecretName is the name of the Secret in the same namespace that has the password of the
	// administrator under the key password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// DatabaseStatus is the observed state of a Database.
type DatabaseStatus struct {
	// Primary is the name of the instance to which the Service directs clients.
	// +optional
	Primary string `json:"primary,omitempty"`

	// Version is the version that the primary runs.
	// +optional
	Version string `json:"version,omitempty"`

	// ReadyReplicas is the number of instances that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the Database: Ready is true when all instances are ready and
	// as the spec wants them, Available when the primary is ready, and BackupReady when the vault
	// for snapshots exists.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The types of the conditions.
const (
	ConditionReady       = "Ready"
	ConditionAvailable   = "Available"
	ConditionBackupReady = "BackupReady"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=db
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",message="the name must be at most 52 lower case letters, digits and hyphens, a letter first: the names of Services and pods begin with it"

// Database is a database with a primary and replicas, and a vault for its snapshots at the backup
// service.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec DatabaseSpec `json:"spec"`
	// +optional
	Status DatabaseStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// DatabaseList is a list of Databases.
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Database{}, &DatabaseList{})
}
