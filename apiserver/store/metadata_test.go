package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// randomMetadata returns metadata with random fields. Some fields are empty.
func randomMetadata(r *rand.Rand) metav1.ObjectMeta {
	text := func() string { return strings.Repeat("x", r.IntN(3)) + fmt.Sprint(r.IntN(1000)) }
	some := func() bool { return r.IntN(2) == 0 }
	m := metav1.ObjectMeta{Name: text(), GenerateName: text(), UID: types.UID(text()), Generation: r.Int64N(5),
		CreationTimestamp: metav1.Unix(1700000000, 0), Annotations: map[string]string{"metadata": `{"name":"other"}`}}
	if some() {
		m.Namespace = text()
	}
	if some() {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000+r.Int64N(1000), 0)}
		m.DeletionGracePeriodSeconds = new(int64)
	}
	if some() {
		m.Labels = map[string]string{text(): text(), "empty": ""}
	}
	for range r.IntN(3) {
		yes := some()
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: text(), UID: types.UID(text()), Controller: &yes})
	}
	for range r.IntN(3) {
		m.Finalizers = append(m.Finalizers, "example.com/"+text())
	}
	if some() {
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}}
	}
	return m
}

// reverse is a transformer that reverses the bytes.
type reverse struct{}

func (reverse) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	slices.Reverse(data)
	return data, nil
}

func (reverse) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	data = slices.Clone(data)
	slices.Reverse(data)
	return data, false, nil
}

// unreadable is a transformer that has lost its key.
type unreadable struct{ reverse }

func (unreadable) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errors.New("no key")
}

// TestMetadataReader compares the metadata that is read from stored values with the metadata of the objects: as protobuf and as
// JSON, decrypted, and decoded.
func TestMetadataReader(t *testing.T) {
	backend := memory.New(memory.Options{})
	defer backend.Close()
	plain, encrypted := store.MetadataReader{}, store.MetadataReader{Transformer: reverse{}}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: randomMetadata(r)}
		protobuf := &bytes.Buffer{}
		if err := podSerializer.Encode(pod, protobuf); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte(`{"METADATA":{"name":"none"},"Metadata":[],`), text[1:]...)
		for _, data := range [][]byte{protobuf.Bytes(), text} {
			for _, reader := range []*store.MetadataReader{&plain, &encrypted} {
				sealed, err := store.Seal(t.Context(), reader.Transformer, "/registry/pods/x", slices.Clone(data))
				if err != nil {
					t.Fatal(err)
				}
				record, err := backend.Put(t.Context(), storage.Write{Key: "/registry/pods/x", Value: sealed, If: storage.Any})
				if err != nil {
					t.Fatal(err)
				}
				compareMetadata(t, reader, record, pod)
			}
		}
	}
}

// compareMetadata compares the metadata that is read from a record with the metadata of an object.
func compareMetadata(t *testing.T, reader *store.MetadataReader, record *storage.Record, pod *corev1.Pod) {
	t.Helper()
	got, err := reader.Read(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: fmt.Sprint(record.Revision),
		DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels, OwnerReferences: pod.OwnerReferences, Finalizers: pod.Finalizers}
	if d := cmp.Diff(want, got.ObjectMeta); d != "" {
		t.Fatalf("%.40q (-want +got):\n%s", record.Value(), d)
	}
}

// TestMetadataOfDecoded reads the metadata of an object that is cached with its record.
func TestMetadataOfDecoded(t *testing.T) {
	pods, backend := podStore(t, memory.Options{})
	pod := newPod(1)
	if err := pods.Create(t.Context(), podKey(pod), pod.DeepCopy(), nil, 0); err != nil {
		t.Fatal(err)
	}
	record, err := backend.Get(t.Context(), podKey(pod))
	if err != nil {
		t.Fatal(err)
	}
	compareMetadata(t, &store.MetadataReader{Transformer: unreadable{}}, record, pod)
}

// TestCorruptMetadata: a value that is no object is an error.
func TestCorruptMetadata(t *testing.T) {
	backend := memory.New(memory.Options{})
	defer backend.Close()
	pod := &bytes.Buffer{}
	if err := podSerializer.Encode(newPod(1), pod); err != nil {
		t.Fatal(err)
	}
	values := [][]byte{nil, []byte("x"), []byte("{}"), []byte(`{"metadata":{}}`), []byte(`{"metadata":{"name":1}}`), []byte("k8s\x00"), []byte("k8s\x00x")}
	for n := range 200 {
		values = append(values, pod.Bytes()[:n])
	}
	for _, v := range values {
		record, err := backend.Put(t.Context(), storage.Write{Key: "/k", Value: v, If: storage.Any})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (&store.MetadataReader{}).Read(t.Context(), record); err == nil {
			t.Errorf("%q has the metadata %+v", v, got)
		}
	}
	if _, err := (&store.MetadataReader{Transformer: unreadable{}}).Read(t.Context(), mustGet(t, backend, "/k")); err == nil {
		t.Error("a value that cannot be decrypted has metadata")
	}
}

func mustGet(t *testing.T, backend storage.Store, key string) *storage.Record {
	t.Helper()
	record, err := backend.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
