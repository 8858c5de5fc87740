package pods_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// withObjects runs a test in virtual time with a control plane that has no controllers, but the objects that they need.
func withObjects(t *testing.T, test func(e controllerstest.Env)) {
	t.Helper()
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		objects, err := (&controllers.Options{}).Manifests(false)
		e.Must(err)
		for _, o := range objects {
			e.Must(client.IgnoreAlreadyExists(e.Create(e.Context(), o)))
		}
		test(e)
	})
}

// TestPodsWithFaults runs the stand-in for kubelet with failing writes and frequent restarts. Each pod must come to the end
// that its containers say, and a deleted pod must go.
func TestPodsWithFaults(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withObjects(t, func(e controllerstest.Env) {
				create := func(name string, change func(p *corev1.Pod)) {
					p := controllerstest.PodOn(pods.NodeName, "default", name)
					p.Spec.RestartPolicy = corev1.RestartPolicyNever
					change(p)
					e.CreateAll(p)
				}
				command := func(text string) func(p *corev1.Pod) {
					return func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh", "-c", text} }
				}
				create("fails", command("exit 3"))
				create("succeeds", command("sleep 1"))
				create("scripted", func(p *corev1.Pod) {
					p.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{runs: [{steps: [{after: 7s, exit: {code: 5}}]}]}]"}
				})
				create("initialized", func(p *corev1.Pod) {
					p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", Command: []string{"true"}}}
					command("exit 0")(p)
				})
				create("deleted", command("sleep 100000"))
				create("runs", func(p *corev1.Pod) {})
				get := func(name string) *corev1.Pod {
					p := &corev1.Pod{}
					if err := e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, p); apierrors.IsNotFound(err) {
						return nil
					} else if err != nil {
						e.Fatal(err)
					}
					return p
				}
				ended := func(name string) bool {
					phase := get(name).Status.Phase
					return phase == corev1.PodSucceeded || phase == corev1.PodFailed
				}
				e.RunWithFaults("pods", seed, func() {
					if p := get("deleted"); p != nil && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
						e.Must(e.Delete(e.Context(), p, client.GracePeriodSeconds(3)))
					}
				}, func() bool {
					return ended("fails") && ended("succeeds") && ended("scripted") && ended("initialized") && get("deleted") == nil
				})
				for name, want := range map[string]int32{"fails": 3, "succeeds": 0, "scripted": 5, "initialized": 0} {
					end := get(name).Status.ContainerStatuses[0].State.Terminated
					if end == nil || end.ExitCode != want || get(name).Status.ContainerStatuses[0].RestartCount != 0 {
						t.Errorf("%s: %+v", name, get(name).Status)
					}
				}
				if s := get("runs").Status; s.Phase != corev1.PodRunning || !s.ContainerStatuses[0].Ready || s.ContainerStatuses[0].RestartCount != 0 {
					t.Errorf("runs: %+v", s)
				}
			})
		})
	}
}

// TestProcessesAfterARestart: the processes begin again when the controller has stopped and starts again, and the status
// shows no restart.
func TestProcessesAfterARestart(t *testing.T) {
	withObjects(t, func(e controllerstest.Env) {
		p := controllerstest.PodOn(pods.NodeName, "default", "p")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 60; exit 7"}
		e.CreateAll(p)
		f := controllerstest.NewFaults(0)
		f.End()
		e.RunController("pods", f, 50*time.Second)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(p), p))
		started := p.Status.ContainerStatuses[0].State.Running
		if started == nil {
			t.Fatalf("before the restart: %+v", p.Status)
		}
		e.RunController("pods", f, 50*time.Second) // a minute since the first start
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(p), p))
		if s := p.Status.ContainerStatuses[0]; s.State.Running == nil || s.RestartCount != 0 || !s.Ready {
			t.Errorf("after the restart: %+v", s)
		}
		e.RunController("pods", f, 70*time.Second)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(p), p))
		if end := p.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 7 {
			t.Errorf("at the end: %+v", p.Status)
		}
	})
}
