package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Balancing is how connections are distributed over the addresses of the target.
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
	// Target is the host that the proxy forwards connections to, and its port after a colon; by default
	// the port is 80. The host cannot be changed.
	// +kubebuilder:validation:MinLength=1
	Target string `json:"target"`

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
// +kubebuilder:deprecatedversion:warning="net.example.com/v1alpha1 Proxy is deprecated and will be removed; use net.example.com/v1 Proxy, which has host and port in place of target"
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target`
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
