package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Balancing is how connections are distributed over the addresses of the host.
// +kubebuilder:validation:Enum=RoundRobin;LeastConnections;Random
type Balancing string

// The values of Balancing. A later version does not have Random any more.
const (
	BalancingRoundRobin       Balancing = "RoundRobin"
	BalancingLeastConnections Balancing = "LeastConnections"
	BalancingRandom           Balancing = "Random"
)

// ProxySpec is the desired state of a Proxy.
type ProxySpec struct {
	// Host is the host that the proxy forwards connections to. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`

	// Port is the port of the host, 80 by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`

	// Connections is the maximum number of open connections, 100 by default.
	// +optional
	Connections *int32 `json:"connections,omitempty"`

	// Balancing is how connections are distributed, RoundRobin by default.
	// +optional
	Balancing Balancing `json:"balancing,omitempty"`
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

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=px
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.port`
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
