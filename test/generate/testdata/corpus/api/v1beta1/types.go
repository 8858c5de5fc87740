// Package v1beta1 has an older version.
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=corpus.example.com
package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="use v1"
// +kubebuilder:resource:path=corpora,scope=Cluster,shortName=co;cor,categories=all;example,singular=corpus

// Corpus is an older version.
type Corpus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Text              string `json:"text"`
}

// +kubebuilder:object:root=true
// +kubebuilder:skipversion

// Plain is not served in this version.
type Plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
