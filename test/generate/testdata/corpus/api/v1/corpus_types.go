package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CorpusSpec is everything.
type CorpusSpec struct {
	Numbers  Numbers  `json:"numbers"`
	Strings  Strings  `json:"strings,omitempty"`
	Objects  *Objects `json:"objects,omitempty"`
	Replicas *int32   `json:"replicas,omitempty"`
}

// CorpusStatus is the status.
type CorpusStatus struct {
	Replicas int32  `json:"replicas,omitempty"`
	Selector string `json:"selector,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=corpora,scope=Cluster,shortName=co;cor,categories=all;example,singular=corpus
// +kubebuilder:printcolumn:name="Replicas",type=integer,format=int32,JSONPath=`.spec.replicas`,description="How many",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:selectablefield:JSONPath=`.spec.strings.text`
// +kubebuilder:metadata:annotations="example.com/a=b";"example.com/c=d",labels="example.com/e=f"
// +kubebuilder:ac:generate=true

// Corpus has everything.
type Corpus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CorpusSpec   `json:"spec,omitempty"`
	Status CorpusStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// CorpusList is a list.
type CorpusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Corpus `json:"items"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource

// Plain is a namespaced kind.
type Plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]string `json:"data,omitempty"`
}
