//go:build !fieldsv1string

package compact

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// fieldsText returns where the text of fields is put together.
func (d *decoder) fieldsText(length int) []byte { return d.arena.Bytes(length) }

// setFields sets the text, which the caller has no other reference to.
//
//lint:ignore SA1019 SetRawBytes would copy the text
func setFields(f *metav1.FieldsV1, text []byte) { f.Raw = text }
