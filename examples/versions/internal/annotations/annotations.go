// Package annotations moves values between the fields of one version of an API and annotations of
// another version, which does not have them.
package annotations

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Put sets an annotation.
func Put(obj metav1.Object, key, value string) {
	all := maps.Clone(obj.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	obj.SetAnnotations(all)
}

// Take removes an annotation and returns its value, which is "" if there is none.
func Take(obj metav1.Object, key string) string {
	all := maps.Clone(obj.GetAnnotations())
	value := all[key]
	delete(all, key)
	if len(all) == 0 {
		all = nil
	}
	obj.SetAnnotations(all)
	return value
}

// PutJSON sets an annotation to a value as JSON, unless value is nil: then the annotation stays as it
// is, which is what TakeJSON has left there.
func PutJSON[T any](obj metav1.Object, key string, value *T) error {
	if value == nil {
		return nil
	}
	encoded, err := json.Marshal(value)
	if err == nil {
		Put(obj, key, string(encoded))
	}
	return err
}

// TakeJSON removes an annotation and returns its value, or nil if there is none. An annotation that
// cannot be decoded is no error and stays where it is: users can write anything there, and an object
// that cannot be converted could not be read any more, nor could a list with it.
func TakeJSON[T any](obj metav1.Object, key string) *T {
	encoded, ok := obj.GetAnnotations()[key]
	if !ok {
		return nil
	}
	var value *T
	decoder := json.NewDecoder(strings.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil || value == nil || decoder.InputOffset() != int64(len(encoded)) {
		return nil
	}
	Take(obj, key)
	return value
}
