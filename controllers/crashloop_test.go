package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// TestCrashLoops: a container that ends in a pod that is always restarted stays in that pod, and waits longer
// before each restart. Its controller has no reason to create another pod.
func TestCrashLoops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		create func(e env, ns string, spec corev1.PodSpec, annotations map[string]string)
	}{
		{"Pod", func(e env, ns string, spec corev1.PodSpec, annotations map[string]string) {
			e.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x", Annotations: annotations}, Spec: spec})
		}},
		{"Deployment", func(e env, ns string, spec corev1.PodSpec, annotations map[string]string) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
				Spec: appsv1.DeploymentSpec{Selector: selectX, Template: templateX(spec)}}
			d.Spec.Template.Annotations = annotations
			e.create(d)
		}},
		{"ReplicaSet", func(e env, ns string, spec corev1.PodSpec, annotations map[string]string) {
			rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
				Spec: appsv1.ReplicaSetSpec{Selector: selectX, Template: templateX(spec)}}
			rs.Spec.Template.Annotations = annotations
			e.create(rs)
		}},
		{"StatefulSet", func(e env, ns string, spec corev1.PodSpec, annotations map[string]string) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
				Spec: appsv1.StatefulSetSpec{Selector: selectX, Template: templateX(spec)}}
			set.Spec.Template.Annotations = annotations
			e.create(set)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, controllers.Options{}, func(e env) {
				revisions := e.countRevisions()
				defer revisions.stop()
				outcomes := map[string]int32{pods.Failed: 3, pods.Succeeded: 0} // the exit codes
				for outcome, code := range outcomes {
					ns := strings.ToLower(outcome)
					e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
					tt.create(e, ns, specX(), map[string]string{pods.OutcomeAnnotation: outcome, pods.ExitCodeAnnotation: fmt.Sprint(code)})
				}
				revisions.wait(time.Minute)
				for outcome, code := range outcomes {
					e.wantCrashLoop(strings.ToLower(outcome), code)
				}
			})
		})
	}
}

// wantCrashLoop checks that a namespace has one pod, with a container that has been restarted three times in
// a minute: at once, and after 10 and 20 s.
func (e env) wantCrashLoop(ns string, code int32) {
	e.Helper()
	all := &corev1.PodList{}
	e.must(e.List(e.Context(), all, client.InNamespace(ns)))
	if len(all.Items) != 1 {
		e.Fatalf("%s: %d pods", ns, len(all.Items))
	}
	p := &all.Items[0]
	c := p.Status.ContainerStatuses[0]
	if w, end := c.State.Waiting, c.LastTerminationState.Terminated; p.Status.Phase != corev1.PodRunning || podstate.Ready(p) || c.Ready || c.RestartCount != 3 ||
		w == nil || w.Reason != "CrashLoopBackOff" || !strings.HasPrefix(w.Message, "back-off 40s restarting failed container=c pod=") ||
		end == nil || end.ExitCode != code {
		e.Errorf("%s: phase %s, %+v", ns, p.Status.Phase, c)
	}
	events := &corev1.EventList{}
	e.must(e.List(e.Context(), events, client.InNamespace(ns)))
	for _, event := range events.Items {
		if event.Reason == "BackOff" && event.InvolvedObject.Name == p.Name && event.Count == 3 {
			return
		}
	}
	e.Errorf("%s: no event BackOff: %v", ns, e.events("Pod", p.Name))
}

// TestCrashLoopingDeployment checks that a Deployment with crashing new pods keeps the old ones, and becomes available
// when the crashes end.
func TestCrashLoopingDeployment(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		outcome := func(value string) func(*appsv1.Deployment) {
			return func(d *appsv1.Deployment) {
				d.Spec.Template.Annotations = map[string]string{pods.OutcomeAnnotation: value}
			}
		}
		e.create(deployment(3, "a"))
		e.waitIdle()
		e.change(outcome(pods.Failed))
		time.Sleep(11 * time.Minute) // virtual
		if d := e.deployment(); d.Status.AvailableReplicas != 3 || d.Status.UpdatedReplicas != 1 || d.Status.UnavailableReplicas != 1 ||
			d.Status.Conditions[0].Reason != "ProgressDeadlineExceeded" && d.Status.Conditions[1].Reason != "ProgressDeadlineExceeded" {
			t.Errorf("while it crashes: %+v", d.Status)
		}
		e.change(outcome(pods.Running))
		e.waitIdle()
		if d := e.deployment(); !isRolledOut(d) {
			t.Errorf("afterwards: %+v", d.Status)
		}
	})
}
