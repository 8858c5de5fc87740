package store

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object that takes longer to unpack than to copy is kept as a Go value while it is read, unless no Go
// values are kept. Each reader gets a copy.
func TestSlowObjects(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key("a").Namespace, Name: "a", UID: "u", ResourceVersion: "1"}}
	for i := range 100 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("key-", i), Value: fmt.Sprint("value-", i)})
	}
	pod.Spec.Tolerations[0].TolerationSeconds = new(int64(7))
	for _, sharing := range []Sharing{ShareOnDemand, ShareAll, ShareNone} {
		synctest.Test(t, func(t *testing.T) {
			s := New(sharing)
			c := s.Scope("")
			c.Changed(pod.DeepCopy())
			c.Pack()
			record := s.records.get(key("a")).watched
			if record.value.IsZero() || !record.value.Slow() {
				t.Fatal("the pod is not packed, or not slow")
			}
			isKept := func() bool { return record.decoded.Load() != nil }
			if s.Watched()[0].Object(); isKept() != (sharing == ShareAll) {
				t.Errorf("sharing %d: kept for a handler: %v", sharing, isKept())
			}
			for range 3 {
				o, _ := s.Get(key("a"), false)
				var into corev1.Pod
				if !o.CopyInto(reflect.ValueOf(&into).Elem()) {
					t.Fatal("the pod is of another type")
				}
				for _, got := range []*corev1.Pod{&into, o.Copy().(*corev1.Pod)} {
					if !reflect.DeepEqual(got, pod) {
						t.Errorf("sharing %d: got %+v", sharing, got)
					}
					*got.Spec.Tolerations[0].TolerationSeconds = 8
				}
				if isKept() != (sharing != ShareNone) {
					t.Errorf("sharing %d: kept: %v", sharing, isKept())
				}
			}
			for range 2 {
				c.Progress("2")
				time.Sleep(evictSharedAfter)
				c.Progress("2")
			}
			if isKept() != (sharing == ShareAll) {
				t.Errorf("sharing %d: kept long after it was read: %v", sharing, isKept())
			}
		})
	}
}
