package await

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
)

// Event waits for an event in a namespace for which matches is true. The error if ctx ends before
// lists the events that there are.
func Event(ctx context.Context, c client.WithWatch, namespace string, matches func(*corev1.Event) bool) error {
	return Until(ctx, c, &corev1.EventList{}, func(all []*corev1.Event) string {
		if slices.ContainsFunc(all, matches) {
			return ""
		}
		var others []string
		for _, e := range all {
			others = append(others, fmt.Sprintf("%s %s of %s %s: %s",
				e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
		}
		slices.Sort(others)
		return "the event is not among:\n" + strings.Join(others, "\n")
	}, client.InNamespace(namespace))
}
