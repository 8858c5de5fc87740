// Package v1 has kinds with every marker that fields and types can have.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Required
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../client/applied
// +groupName=corpus.example.com
// +versionName=v1
package v1
