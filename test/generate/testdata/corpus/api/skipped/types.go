// Package skipped has no CRDs.
// +kubebuilder:skip
// +groupName=skipped.example.com
package skipped

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Skipped is skipped.
type Skipped struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
