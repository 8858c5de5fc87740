package zap

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KubeAwareEncoder encodes Kubernetes objects as their kind, namespace and name.
type KubeAwareEncoder struct {
	// Encoder encodes everything else.
	zapcore.Encoder

	// Verbose encodes complete objects, except Secrets.
	Verbose bool
}

// Clone returns a copy.
func (k *KubeAwareEncoder) Clone() zapcore.Encoder {
	return &KubeAwareEncoder{Encoder: k.Encoder.Clone(), Verbose: k.Verbose}
}

// EncodeEntry encodes an entry. It does not change fields.
func (k *KubeAwareEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	return k.Encoder.EncodeEntry(entry, abridge(fields, k.Verbose))
}

// kubeCore does for the fields of a logger what KubeAwareEncoder does for the fields of an entry: Zap
// encodes the former one by one when they are added.
type kubeCore struct {
	zapcore.Core
	verbose bool
}

func (c kubeCore) With(fields []zapcore.Field) zapcore.Core {
	return kubeCore{Core: c.Core.With(abridge(fields, c.verbose)), verbose: c.verbose}
}

// abridge returns the fields with each object replaced by its identity.
func abridge(fields []zapcore.Field, verbose bool) []zapcore.Field {
	out := fields
	for i, f := range fields {
		if f.Type != zapcore.StringerType && f.Type != zapcore.ReflectType {
			continue
		}
		obj, ok := f.Interface.(runtime.Object)
		if !ok || (verbose && !isSecret(obj)) {
			continue
		}
		if &out[0] == &fields[0] {
			out = slices.Clone(fields)
		}
		out[i] = zapcore.Field{Key: f.Key, Type: zapcore.ObjectMarshalerType, Interface: identity{obj}}
	}
	return out
}

func isSecret(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Secret, *corev1.SecretList:
		return true
	case runtime.Unstructured:
		if reflect.ValueOf(o).IsNil() {
			return false
		}
		gk := o.GetObjectKind().GroupVersionKind().GroupKind()
		return gk == schema.GroupKind{Kind: "Secret"} || gk == schema.GroupKind{Kind: "SecretList"}
	default:
		return false
	}
}

// identity encodes the apiVersion, kind, namespace and name of an object.
type identity struct{ obj runtime.Object }

func (id identity) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	if v := reflect.ValueOf(id.obj); v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("got nil for runtime.Object")
	}
	if gvk := id.obj.GetObjectKind().GroupVersionKind(); gvk.Version != "" {
		enc.AddString("apiVersion", gvk.GroupVersion().String())
		enc.AddString("kind", gvk.Kind)
	}
	m, ok := id.obj.(metav1.Object)
	if !ok {
		enc.AddString("type", fmt.Sprintf("%T", id.obj))
		return nil
	}
	if ns := m.GetNamespace(); ns != "" {
		enc.AddString("namespace", ns)
	}
	enc.AddString("name", m.GetName())
	return nil
}
