package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Balancing is how connections are distributed over the addresses of the host.
// +kubebuilder:validation:Enum=RoundRobin;LeastConnections
type Balancing string

// The values of Balancing.
const (
	BalancingRoundRobin       Balancing = "RoundRobin"
	BalancingLeastConnections Balancing = "LeastConnections"
)

// Retries are how failed connections are tried again.
type Retries struct {
	// Attempts is the maximum number of times that a connection is tried again.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Attempts int32 `json:"attempts"`

	// Timeout is how long one attempt may take; by default there is no limit.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// ProxySpec is the desired state of a Proxy. Fields that are not set get their defaults from a
// webhook and not from the schema, so that the defaults of all versions are in one place.
type ProxySpec struct {
	// Host is the host that the proxy forwards connections to. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`

	// Port is the port of the host, 80 by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`

	// MaxConnections is the maximum number of open connections, 100 by default.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// Balancing is how connections are distributed, RoundRobin by default.
	// +optional
	Balancing Balancing `json:"balancing,omitempty"`

	// Retries are how failed connections are tried again; by default twice.
	// +optional
	Retries *Retries `json:"retries,omitempty"`
}

// ProxyStatus is the observed state of a Proxy.
type ProxyStatus struct {
	// ObservedGeneration is the generation that the controller has observed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the conditions of the Proxy. Ready is true when the ConfigMap has its
	// configuration.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigSuffix follows the name of a Proxy in the name of its ConfigMap.
const ConfigSuffix = "-proxy"

// ConditionReady is the type of the condition Ready.
const ConditionReady = "Ready"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=px
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Balancing",type=string,JSONPath=`.spec.balancing`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Proxy forwards connections to a host.
type Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ProxySpec `json:"spec"`
	// +optional
	Status ProxyStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ProxyList is a list of Proxies.
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Proxy `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Proxy{}, &ProxyList{})
}
