package pods_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
)

// TestPullAttempts: a pull that fails is tried again after 10 s, 20 s and so on. Each attempt has its events and the reason
// ErrImagePull, before the container backs off again.
func TestPullAttempts(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.CreateAll(controllerstest.Pod("missing", "web:404"))
		scripted := controllerstest.Pod("scripted", "web:1")
		scripted.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{pull: {failures: 3, duration: 5s, message: no route}}]"}
		w.CreateAll(scripted)
		check := func(when, pod, state string, pulling, failed int32) {
			t.Helper()
			w.want(when, pod, state)
			got := map[string]int32{}
			for message, count := range w.counts(pod, "Pulling") {
				got[strings.SplitN(message, " ", 2)[0]] += count
			}
			for message, count := range w.counts(pod, "Failed") {
				if message == "Error: ErrImagePull" {
					got["failed"] += count
				}
			}
			if got["Pulling"] != pulling || got["failed"] != failed {
				t.Errorf("%s: %s has the events %v, want %d times Pulling and %d times Failed", when, pod, got, pulling, failed)
			}
		}
		const backsOff = "Pending restarts=0 ready=false ImagePullBackOff"
		wait(5 * time.Second)
		check("after 5 s", "missing", backsOff, 1, 1)
		check("after 5 s", "scripted", backsOff, 1, 1)
		wait(10 * time.Second)
		check("after 15 s", "missing", backsOff, 2, 2)
		check("after 15 s", "scripted", backsOff, 2, 2)
		wait(57 * time.Second)
		check("after 72 s", "missing", backsOff, 4, 4)
		check("after 72 s, while it is pulled", "scripted", backsOff, 3, 3)
		wait(10 * time.Second)
		check("after 82 s", "scripted", "Running restarts=0 ready=true running", 4, 3)
		wait(10 * time.Minute)
		check("after 11 min", "missing", backsOff, 7, 7) // at 0, 10, 30, 70, 150, 310 and 610 s
	})
}

// TestPullOfASharedImage: a container finds the image that another one has pulled.
func TestPullOfASharedImage(t *testing.T) {
	withRuntime(t, func(w *world) {
		p := controllerstest.Pod("p", "web:1")
		p.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{pull: {failures: 1}}]"}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "same", Image: "web:1"})
		w.CreateAll(p)
		wait(12 * time.Second)
		for _, s := range w.Pod("p").Status.ContainerStatuses {
			if s.State.Running == nil {
				t.Errorf("%s is %+v", s.Name, s.State)
			}
		}
		if got := w.counts("p", "Pulling"); got[`Pulling image "web:1"`] != 2 { // one that fails, and one that does not
			t.Errorf("the pulls: %v", got)
		}
		w.WantEvent("p", "Normal Pulled", `Container image "web:1" already present on machine and can be accessed by the pod`)
	})
}
