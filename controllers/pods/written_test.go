package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// TestWritten follows what the cache has of a pod after a write of its status.
func TestWritten(t *testing.T) {
	at := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: version}}
	}
	for _, tt := range []struct {
		name    string
		written string // the version of a write over version 5, if any
		cached  []string
		want    []bool
	}{
		{"no write", "", []string{"5", "5"}, []bool{false, false}},
		{"the event has not come", "6", []string{"5", "5"}, []bool{true, true}},
		{"the event has come", "6", []string{"5", "6", "6"}, []bool{true, false, false}},
		{"a later event has come", "6", []string{"9"}, []bool{false}},
		{"nothing was written", "5", []string{"5"}, []bool{false}},
		{"the version from before is never awaited twice", "6", []string{"6", "5"}, []bool{false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w written
			if tt.written != "" {
				w.add(at(tt.written), "5")
			}
			for i, version := range tt.cached {
				if got := w.awaits(at(version)); got != tt.want[i] {
					t.Errorf("with version %s in the cache: got %v, want %v", version, got, tt.want[i])
				}
			}
		})
	}
	var w written
	w.add(at("6"), "5")
	w.remove(client.ObjectKeyFromObject(at("")))
	if w.awaits(at("5")) || len(w.over) != 0 {
		t.Error("a removed pod is awaited")
	}
}
