package transcode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"flyball.dev/apiserver/store/transcode"
)

// object is a Kubernetes object with generated methods of protobuf.
type object interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// unsupported are the kinds that [transcode.For] does not support, with a part of the error. Only the first is stored.
var unsupported = map[string]string{
	"CertificateSigningRequest": "ExtraValue has methods of its own",
	"LocalSubjectAccessReview":  "ExtraValue has methods of its own",
	"SelfSubjectReview":         "ExtraValue has methods of its own",
	"SubjectAccessReview":       "ExtraValue has methods of its own",
	"TokenReview":               "ExtraValue has methods of its own",
	"TokenRequest":              "AttestationValue has methods of its own",
}

// kinds returns the Go types of all stored kinds, by name, each once.
func kinds(t testing.TB) map[string]reflect.Type {
	t.Helper()
	found := map[string]reflect.Type{}
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		_, hasMeta := obj.(metav1.ObjectMetaAccessor)
		if _, ok := obj.(object); ok && hasMeta && goType.Field(1).Name == "ObjectMeta" {
			found[gvk.Kind+"."+gvk.Version+"."+gvk.Group] = goType
		}
	}
	if len(found) < 60 {
		t.Fatalf("only %d kinds", len(found))
	}
	return found
}

// TestAgainstJSON compares random objects of all kinds with encoding/json: decoded objects, and objects as they are before
// they are encoded, if they are exact. Objects with an encoding that changes when they are decoded are left out.
func TestAgainstJSON(t *testing.T) {
	const perKind = 60
	random := rand.New(rand.NewSource(7))
	sparse := filler(random, 0.6, 0, 2)
	dense := filler(random, 0.1, 0, 3)
	var space transcode.Space
	for name, goType := range kinds(t) {
		transcoder, err := transcode.For(goType)
		kind, _, _ := strings.Cut(name, ".")
		if want, ok := unsupported[kind]; ok || err != nil {
			if err == nil || !ok || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", name, err, want)
			}
			continue
		}
		canonical, exact := 0, 0
		for i := range perKind {
			obj := reflect.New(goType).Interface().(object)
			if i > 0 { // the first is empty
				[]*randfill.Filler{sparse, dense}[i%2].Fill(obj)
			}
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			encoded, err := obj.Marshal()
			if err != nil {
				t.Fatal(name, err)
			}
			decoded := reflect.New(goType).Interface().(object)
			if err := decoded.Unmarshal(encoded); err != nil {
				t.Fatal(name, err)
			}
			if again, err := decoded.Marshal(); err != nil || !bytes.Equal(again, encoded) {
				continue
			}
			canonical++
			if !transcoder.Exact(decoded) {
				t.Errorf("%s: a decoded object is not exact", name)
			}
			compare(t, transcoder, &space, encoded, decoded)
			if transcoder.Exact(obj) {
				exact++
				compare(t, transcoder, &space, encoded, obj)
			}
		}
		if canonical < perKind/2 || exact < perKind/10 {
			t.Errorf("%s: %d objects had a canonical encoding, and %d were exact", name, canonical, exact)
		}
	}
}

// filler returns a filler for objects, which may have odd strings and empty lists.
func filler(random *rand.Rand, nilChance float64, from, to int) *randfill.Filler {
	return apifuzzer.FuzzerFor(metafuzzer.Funcs, random, scheme.Codecs).NilChance(nilChance).NumElements(from, to).MaxDepth(30).Funcs(
		func(s *string, c randfill.Continue) {
			*s = odd[c.Intn(len(odd))] + c.String(12)
		},
		func(e *runtime.RawExtension, c randfill.Continue) {
			*e = runtime.RawExtension{Raw: []byte(embedded[c.Intn(len(embedded))])}
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawBytes([]byte(embedded[c.Intn(len(embedded))]))
		},
	)
}

var (
	odd      = []string{"", "plain", "<a href=\"x\">&", "\\\b\f\n\r\t\x00\x1f\x7f", "\u2028\u2029\ufffd", "a\xffb\xc0", "日本"}
	embedded = []string{`{}`, `{"a": [1, "<&>", "` + "\u2028" + `"]}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`}
)

func compare(t *testing.T, transcoder *transcode.Type, space *transcode.Space, encoded []byte, obj any) {
	t.Helper()
	want, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	got, err := transcoder.Append([]byte("x"), encoded, space)
	if err != nil || string(got) != "x"+string(want) {
		t.Errorf("%T: %v\n%.700s\nwant\n%.700s", obj, err, got, want)
	}
}

// TestExact: an object with a difference that JSON shows and protobuf does not have is not exact.
func TestExact(t *testing.T) {
	set := func(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{Kind: "StatefulSet"}, Spec: appsv1.StatefulSetSpec{
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}}}}
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}}
		change(s)
		return s
	}
	for _, test := range []struct {
		obj  object
		want bool
	}{
		{set(func(*appsv1.StatefulSet) {}), true},
		{set(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Kind = "PersistentVolumeClaim" }), false},
		{set(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{} }), true}, // omitted
		{set(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers = nil }), true},
		{set(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers = []corev1.Container{} }), false}, // null or []
		{&corev1.Secret{Data: map[string][]byte{"a": {}}}, true},
		{&corev1.Secret{Data: map[string][]byte{"a": nil}}, false}, // null or ""
		{&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte("{}")}}, true},
		{&appsv1.ControllerRevision{Data: runtime.RawExtension{Object: &corev1.Pod{}}}, false},
	} {
		transcoder, err := transcode.For(reflect.TypeOf(test.obj).Elem())
		if err != nil {
			t.Fatal(err)
		}
		if got := transcoder.Exact(test.obj); got != test.want {
			t.Errorf("%v: %t", test.obj, got)
		}
		encoded, err := test.obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var space transcode.Space
		got, err := transcoder.Append(nil, encoded, &space)
		obj := test.obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		want, wantErr := json.Marshal(obj)
		if err != nil || wantErr != nil || bytes.Equal(got, want) != test.want {
			t.Errorf("%s, %v\n%s, %v", got, err, want, wantErr)
		}
	}
	if pods, _ := transcode.For(reflect.TypeFor[corev1.Pod]()); pods.Exact(&corev1.Node{}) {
		t.Error("a node is an exact pod")
	}
}

// Inner has a name that an outer struct may have too.
type Inner struct {
	A string `json:"a" protobuf:"bytes,1,opt,name=a"`
}

// TestUnsupported: types that JSON encodes in ways that only encoding/json knows.
func TestUnsupported(t *testing.T) {
	for _, v := range []any{
		0,
		struct {
			A float64 `json:"a" protobuf:"fixed64,1,opt,name=a"`
		}{},
		struct {
			A int32 `json:"a,string" protobuf:"varint,1,opt,name=a"`
		}{},
		struct {
			A string `json:"a"`
		}{},
		struct {
			Inner `json:",inline" protobuf:"bytes,1,opt,name=inner"`
			B     string `json:"a" protobuf:"bytes,2,opt,name=b"`
		}{},
		struct {
			A string `json:"a" protobuf:"bytes,1,opt,name=a"`
			B string `json:"b" protobuf:"bytes,1,opt,name=b"`
		}{},
		struct {
			A int32 `json:"a,omitzero" protobuf:"varint,1,opt,name=a"`
		}{},
		struct {
			A any `json:"a" protobuf:"bytes,1,opt,name=a"`
		}{},
		struct {
			A [][]string `json:"a" protobuf:"bytes,1,rep,name=a"`
		}{},
		struct {
			*corev1.Pod `json:",inline" protobuf:"bytes,1,opt,name=a"`
		}{},
		struct {
			A metav1.Duration `json:"a" protobuf:"bytes,1,opt,name=a"`
		}{},
	} {
		for range 2 { // an error is kept
			if _, err := transcode.For(reflect.TypeOf(v)); err == nil {
				t.Errorf("%T is supported", v)
			}
		}
	}
}

// FuzzAppend transcodes any bytes. If they are the encoding of the decoded pod, the result is its JSON.
func FuzzAppend(f *testing.F) {
	random := filler(rand.New(rand.NewSource(1)), 0.5, 0, 2)
	for range 20 {
		var pod corev1.Pod
		random.Fill(&pod)
		encoded, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		f.Add(slices.Concat(encoded, encoded))
		f.Add(encoded[:len(encoded)/2])
	}
	transcoder, err := transcode.For(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var space transcode.Space
		got, err := transcoder.Append(nil, encoded, &space)
		var pod corev1.Pod
		if pod.Unmarshal(encoded) != nil {
			return
		}
		again, marshalErr := pod.Marshal()
		if marshalErr != nil || !bytes.Equal(again, encoded) {
			return
		}
		want, jsonErr := json.Marshal(&pod)
		if (err == nil) != (jsonErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s, %v\nwant\n%s, %v", got, err, want, jsonErr)
		}
	})
}

// BenchmarkPod compares the JSON of a small pod from its encoding with decoding and encoding it.
func BenchmarkPod(b *testing.B) {
	pod := smallPod()
	encoded, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	transcoder, err := transcode.For(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("transcode", func(b *testing.B) {
		var space transcode.Space
		var to []byte
		b.ReportAllocs()
		for b.Loop() {
			if to, err = transcoder.Append(to[:0], encoded, &space); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		var to bytes.Buffer
		b.ReportAllocs()
		for b.Loop() {
			var pod corev1.Pod
			to.Reset()
			if err := pod.Unmarshal(encoded); err != nil {
				b.Fatal(err)
			}
			if err := json.NewEncoder(&to).Encode(&pod); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("exact", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !transcoder.Exact(pod) {
				b.Fatal("not exact")
			}
		}
	})
}

func smallPod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "6c2e2b6c-1f2c-4b0e-9d38-0a0b0c0d0e0f", Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example.org/app:1", ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile}},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
	now := pod.CreationTimestamp
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`)}}
	return pod
}

// TestSpace: the space remembers a bounded number of managed fields.
func TestSpace(t *testing.T) {
	transcoder, err := transcode.For(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		t.Fatal(err)
	}
	var space transcode.Space
	for i := range 1000 {
		pod := smallPod()
		pod.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata": {"f:%d":{}}}`, i%600))
		encoded, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, transcoder, &space, encoded, pod)
	}
}
