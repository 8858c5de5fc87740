package apiutil_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/apiutil"
)

// plain is a Go type as a program has it for a kind: it does not implement protobuf.
type plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func (p *plain) DeepCopyObject() runtime.Object { c := *p; return &c }

type plainList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []plain `json:"items"`
}

func (l *plainList) DeepCopyObject() runtime.Object { c := *l; return &c }

// own implements protobuf, as slim copies of built-in types do.
type own struct{ plain }

func (*own) Reset()                   {}
func (*own) Marshal() ([]byte, error) { return nil, nil }
func (*own) Unmarshal([]byte) error   { return nil }
func (o *own) DeepCopyObject() runtime.Object {
	c := *o
	return &c
}

// decoder can be decoded and not encoded.
type decoder struct{ plain }

func (*decoder) Reset()                 {}
func (*decoder) Unmarshal([]byte) error { return nil }

// wrapped has the methods of the embedded pod, which do not encode its other field.
type wrapped struct {
	corev1.Pod
	Note string `json:"note"`
}

// metaOnly has the methods of the metadata.
type metaOnly struct {
	Kind              string `json:"kind"`
	metav1.ObjectMeta `json:"metadata"`
}

func (m *metaOnly) GetObjectKind() schema.ObjectKind { return &metav1.TypeMeta{} }
func (m *metaOnly) DeepCopyObject() runtime.Object   { c := *m; return &c }

const protobufType, jsonType = runtime.ContentTypeProtobuf, runtime.ContentTypeJSON

func TestImplementsProtobuf(t *testing.T) {
	for _, tt := range []struct {
		obj  runtime.Object
		want bool
	}{
		{&corev1.Pod{}, true},
		{&corev1.PodList{}, true},
		{&metav1.PartialObjectMetadata{}, true},
		{&metav1.Status{}, true},
		{&own{}, true},
		{&plain{}, false},
		{&plainList{}, false},
		{&decoder{}, false},
		{&wrapped{}, false},
		{&metaOnly{}, false},
	} {
		if got := apiutil.ImplementsProtobuf(tt.obj); got != tt.want {
			t.Errorf("%T: got %t", tt.obj, got)
		}
	}
}

func TestWhenProtobufIsUsed(t *testing.T) {
	// A program's own kinds in a group of Kubernetes, which it has also added to client-go's scheme.
	mine := schema.GroupVersion{Group: "apps", Version: "v1"}
	clientgoscheme.Scheme.AddKnownTypeWithName(mine.WithKind("Mine"), &plain{})
	clientgoscheme.Scheme.AddKnownTypeWithName(mine.WithKind("MineList"), &plainList{})
	clientgoscheme.Scheme.AddKnownTypeWithName(mine.WithKind("Capable"), &own{})
	// A program's own Go types for a kind of Kubernetes.
	slim := func(obj, list runtime.Object) *runtime.Scheme {
		s := runtime.NewScheme()
		s.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("Pod"), obj)
		if list != nil {
			s.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("PodList"), list)
		}
		s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{}, &corev1.SecretList{})
		return s
	}
	pod, secret := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret")

	capable := apiutil.ConfigForGVK(mine.WithKind("Capable"), false, false, &rest.Config{}, serializer.NewCodecFactory(clientgoscheme.Scheme))
	if capable.ContentType != "" {
		t.Errorf("the server is not known to support this kind as %s", capable.ContentType)
	}

	for _, tt := range []struct {
		name   string
		scheme *runtime.Scheme
		gvk    schema.GroupVersionKind
		want   string
	}{
		{"built in", clientgoscheme.Scheme, pod, protobufType},
		{"own kind in a built-in group", clientgoscheme.Scheme, mine.WithKind("Mine"), ""},
		{"own type of a built-in kind", slim(&plain{}, &plainList{}), pod, ""},
		{"own type that implements protobuf", slim(&own{}, nil), pod, protobufType},
		{"own type that implements protobuf, with a list that does not", slim(&own{}, &plainList{}), pod, ""},
		{"own list only", slim(&corev1.Pod{}, &plainList{}), pod, ""},
		{"own type that embeds the built-in one", slim(&wrapped{}, nil), pod, ""},
		{"the built-in type next to an own one", slim(&plain{}, &plainList{}), secret, protobufType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			codecs := serializer.NewCodecFactory(tt.scheme)
			for _, base := range []rest.ContentConfig{
				{},
				{ContentType: protobufType},
				{ContentType: protobufType, AcceptContentTypes: protobufType + "," + jsonType},
				{AcceptContentTypes: jsonType + ", " + protobufType},
			} {
				cfg := apiutil.ConfigForGVK(tt.gvk, false, false, &rest.Config{ContentConfig: base}, codecs)
				if tt.want == "" {
					if cfg.ContentType != "" && cfg.ContentType != jsonType {
						t.Errorf("%+v: sends %q", base, cfg.ContentType)
					}
					if cfg.AcceptContentTypes != "" && cfg.AcceptContentTypes != jsonType {
						t.Errorf("%+v: asks for %q", base, cfg.AcceptContentTypes)
					}
				} else if cfg.ContentType != tt.want || cfg.AcceptContentTypes != base.AcceptContentTypes {
					t.Errorf("%+v: sends %q and asks for %q", base, cfg.ContentType, cfg.AcceptContentTypes)
				}
				off := apiutil.ConfigForGVK(tt.gvk, true, false, &rest.Config{ContentConfig: base}, codecs)
				if off.ContentType == protobufType || off.AcceptContentTypes != "" && off.AcceptContentTypes != jsonType {
					t.Errorf("%+v, protobuf disabled: sends %q and asks for %q", base, off.ContentType, off.AcceptContentTypes)
				}
			}
		})
	}
}
