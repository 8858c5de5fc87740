package pods_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestStreamsOfIdleContainers: what a client has opened to a container without a process ends with the run of the container, as it does
// for a process.
func TestStreamsOfIdleContainers(t *testing.T) {
	const logging = "containers: [{runs: [{steps: [{log: one}, {after: 2s, log: two}, {after: 1000h, log: three}]}]}]"
	update := func(change func(*corev1.Pod)) func(*world) {
		return func(w *world) {
			p := w.Pod("p")
			change(p)
			w.Must(w.Update(w.Context(), p))
		}
	}
	for _, tt := range []struct {
		name, script string
		end          func(*world) // 5 s after the start
		log          string
	}{
		{"it ends by its script, with a last line", "containers: [{runs: [{steps: [{log: one}, {after: 5s, log: two, exit: {code: 1}}]}]}]", nil, "one\ntwo\n"},
		{"a scripted one is deleted", logging, func(w *world) { w.Must(w.Delete(w.Context(), w.Pod("p"))) }, "one\ntwo\n"},
		{"a scripted one has another image", logging, update(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }), "one\ntwo\n"},
		{"an idle one is deleted", "{}", func(w *world) { w.Must(w.Delete(w.Context(), w.Pod("p"), client.GracePeriodSeconds(0))) }, ""},
		{"an idle one has another image", "{}", update(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }), ""},
		{"an idle one is made to fail", "{}", update(func(p *corev1.Pod) { p.Annotations[pods.OutcomeAnnotation] = pods.Failed }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withRuntime(t, func(w *world) {
				pod := controllerstest.Pod("p", "app:1")
				pod.Annotations = map[string]string{pods.ScriptAnnotation: tt.script}
				w.CreateAll(pod)
				wait(time.Second)
				ref := runtime.PodRef{Namespace: "default", Name: "p"}
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				var log strings.Builder
				results := map[string]chan error{}
				for name, stream := range map[string]func() error{
					"the log": func() error {
						return w.runtime.Logs(ctx, ref, "web", &corev1.PodLogOptions{Follow: true}, &log)
					},
					"the attached client": func() error { return w.runtime.Attach(ctx, ref, "web", runtime.Streams{}) },
					"the command": func() error {
						_, err := w.runtime.Exec(ctx, ref, "web", []string{"sleep", "infinity"}, runtime.Streams{})
						return err
					},
				} {
					result := make(chan error, 1)
					results[name] = result
					go func() { result <- stream() }()
				}
				wait(2 * time.Second)
				if tt.end != nil {
					tt.end(w)
				}
				wait(3 * time.Second)
				for name, result := range results {
					select {
					case err := <-result:
						w.Must(err)
					default:
						t.Errorf("%s goes on", name)
						cancel()
						<-result
					}
				}
				if log.String() != tt.log {
					t.Errorf("the log is %q, want %q", log.String(), tt.log)
				}
			})
		})
	}
}

// TestStreamsOfAWaitingContainer: the errors are kubelet's.
func TestStreamsOfAWaitingContainer(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.CreateAll(controllerstest.Pod("p", "app:404"))
		wait(time.Second)
		ref := runtime.PodRef{Namespace: "default", Name: "p"}
		_, err := w.runtime.Exec(w.Context(), ref, "web", []string{"true"}, runtime.Streams{})
		for want, err := range map[string]error{
			`container not found ("web")`:                                                      err,
			"container web not found in pod p_default":                                         w.runtime.Attach(w.Context(), ref, "web", runtime.Streams{}),
			`container "web" in pod "p" is waiting to start: trying and failing to pull image`: w.runtime.Logs(w.Context(), ref, "web", &corev1.PodLogOptions{}, io.Discard),
			`previous terminated container "web" in pod "p" not found`:                         w.runtime.Logs(w.Context(), ref, "web", &corev1.PodLogOptions{Previous: true}, io.Discard),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
