package dev

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFirstWrite: the first write is shown after a long build, but not long after the start of the operator.
func TestFirstWrite(t *testing.T) {
	event, err := json.Marshal(auditv1.Event{
		Stage: auditv1.StageResponseComplete, Verb: "update", ResponseStatus: &metav1.Status{Code: 200},
		ObjectRef: &auditv1.ObjectReference{Resource: "widgets", Namespace: "default", Name: "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		build, until time.Duration
		shown        bool
	}{
		{time.Second, time.Second, true},
		{10 * time.Minute, 30 * time.Second, true},
		{time.Second, 2 * time.Minute, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &requests{lines: make(chan string, 10)}
			since := time.Now()
			time.Sleep(tt.build) // virtual
			r.restart(since)
			time.Sleep(tt.until)
			for range 2 {
				if _, err := r.Write(event); err != nil {
					t.Fatal(err)
				}
			}
			close(r.lines)
			var shown []string
			for line := range r.lines {
				shown = append(shown, line)
			}
			if (len(shown) == 1) != tt.shown || tt.shown && !strings.HasPrefix(shown[0], "first write: update widgets default/v: ") {
				t.Errorf("a build of %s, and a write %s after the start: %q", tt.build, tt.until, shown)
			}
		})
	}
}
