package pods

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// outcome is the behaviour of a container after its start. With the zero value the container runs and is ready.
type outcome struct {
	unready    bool // it is not ready while it runs
	terminates bool
	after      time.Duration // how long it runs before it terminates
	exitCode   int32
}

// outcomeOf returns the outcome in the annotations of a pod. It ignores invalid values.
func outcomeOf(pod *corev1.Pod) outcome {
	code, err := strconv.ParseUint(pod.Annotations[ExitCodeAnnotation], 10, 8)
	hasCode := err == nil && code > 0
	o, value := outcome{}, pod.Annotations[OutcomeAnnotation]
	switch {
	case value == Running:
		return o
	case value == NeverReady:
		return outcome{unready: true}
	case value == Failed || value != Succeeded && hasCode:
		o.terminates, o.exitCode = true, 1
		if hasCode {
			o.exitCode = int32(code)
		}
	case value == Succeeded || podstate.OfJob(pod):
		o.terminates = true
	}
	if d, err := time.ParseDuration(pod.Annotations[DurationAnnotation]); err == nil && o.terminates {
		o.after = d
	}
	return o
}

// hasOutcome reports whether an annotation of a pod says how its containers end.
func hasOutcome(pod *corev1.Pod) bool {
	for _, name := range [...]string{OutcomeAnnotation, DurationAnnotation, ExitCodeAnnotation} {
		if _, ok := pod.Annotations[name]; ok {
			return true
		}
	}
	return false
}
