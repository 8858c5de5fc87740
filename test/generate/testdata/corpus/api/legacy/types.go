// Package legacy has the markers of k8s.io/code-generator.
// +k8s:deepcopy-gen=package,register
package legacy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Thing is a thing.
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Thing struct {
	metav1.TypeMeta
	Names []string
}

// Other is not copied.
// +k8s:deepcopy-gen=false
type Other struct{ M map[string]int }
