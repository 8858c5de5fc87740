//go:build fieldsv1string

package compact

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// fieldsText returns where the text of fields is put together.
func (d *decoder) fieldsText(length int) []byte { return make([]byte, 0, length) }

// setFields sets the text. Equal texts are in memory once.
func setFields(f *metav1.FieldsV1, text []byte) { f.SetRawBytes(text) }
