package controllerstest

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
)

// Events returns the type, reason, component, field path and message of each event about an object, ordered by
// component and first occurrence.
func (e Env) Events(kind, name string) []string {
	e.Helper()
	list := &corev1.EventList{}
	e.Must(e.List(e.Context(), list, client.InNamespace("default"), client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name}))
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return strings.Compare(b.ReportingController, a.ReportingController) // their names contain the time
	})
	var described []string
	for _, e := range list.Items {
		at := e.InvolvedObject.FieldPath
		if at != "" {
			at = " " + at
		}
		described = append(described, e.Type+" "+e.Reason+" "+e.ReportingController+at+": "+e.Message)
	}
	return described
}

// WantEvents checks all events about an object, in the form of [Env.Events].
func (e Env) WantEvents(kind, name string, want ...string) {
	e.Helper()
	if d := cmp.Diff(want, e.Events(kind, name)); d != "" {
		e.Errorf("events about %s (-want +got):\n%s", name, d)
	}
}

// WantEvent checks that a pod has an event of a type and a reason with a message that begins with the given words.
func (e Env) WantEvent(pod, of, message string) {
	e.Helper()
	events := e.Events("Pod", pod)
	if !slices.ContainsFunc(events, func(event string) bool {
		return strings.HasPrefix(event, of+" ") && strings.Contains(event, ": "+message)
	}) {
		e.Errorf("%s: %s is missing in the events %q", of, message, events)
	}
}
