package protobuf_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	flyprotobuf "flyball.dev/internal/protobuf"
)

// TestResourceVersion reads the resource version of encoded objects. Other data than an object of the kind in protobuf must be decoded.
func TestResourceVersion(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "b", ResourceVersion: "4711", Labels: map[string]string{"resourceVersion": "1"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "6"}}}}
	unversioned := pod.DeepCopy()
	unversioned.ResourceVersion = ""
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, ListMeta: metav1.ListMeta{ResourceVersion: "3"}}
	asProtobuf, asJSON := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{})
	encode := func(e runtime.Encoder, obj runtime.Object) []byte {
		var buffer bytes.Buffer
		if err := e.Encode(obj, &buffer); err != nil {
			t.Fatal(err)
		}
		return buffer.Bytes()
	}
	whole := encode(asProtobuf, pod)
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"a pod", whole, "4711"},
		{"no version", encode(asProtobuf, unversioned), ""},
		{"another kind", encode(asProtobuf, status), ""},
		{"JSON", encode(asJSON, pod), ""},
		{"nothing", nil, ""},
		{"the prefix alone", whole[:4], ""},
		{"no object", whole[:20], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := flyprotobuf.ResourceVersion(tt.data, "v1", "Pod")
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}

// FuzzResourceVersion compares with the decoder: a version that is read from a response is the version of the decoded object.
func FuzzResourceVersion(f *testing.F) {
	decoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var buffer bytes.Buffer
	if err := decoder.Encode(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "12"}}, &buffer); err != nil {
		f.Fatal(err)
	}
	f.Add(buffer.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		version, ok := flyprotobuf.ResourceVersion(data, "v1", "Pod")
		pod := &corev1.Pod{}
		if _, _, err := decoder.Decode(data, nil, pod); err != nil || !ok {
			return
		}
		if pod.ResourceVersion != version && bytes.Count(data, []byte(version)) == 1 {
			t.Errorf("got %q; the decoder says %q", version, pod.ResourceVersion)
		}
	})
}
