package pods_test

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
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestCrashLoops: a container that ends in a pod that is always restarted stays in that pod, and waits longer
// before each restart. Its controller has no reason to create another pod.
func TestCrashLoops(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: controllerstest.Template("").Labels}
	for _, tt := range []struct {
		name   string
		object func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object
	}{
		{"Pod", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			meta.Annotations = template.Annotations
			return &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}
		}},
		{"Deployment", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
		}},
		{"ReplicaSet", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
		}},
		{"StatefulSet", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
		}},
		{"DaemonSet", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
		}},
		{"ReplicationController", func(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) client.Object {
			return &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				revisions := e.CountRevisions()
				defer revisions.Stop()
				outcomes := map[string]int32{pods.Failed: 3, pods.Succeeded: 0} // the exit codes
				for outcome, code := range outcomes {
					ns := strings.ToLower(outcome)
					e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
					crashing := controllerstest.Template("c")
					crashing.Annotations = map[string]string{pods.OutcomeAnnotation: outcome, pods.ExitCodeAnnotation: fmt.Sprint(code)}
					e.CreateAll(tt.object(metav1.ObjectMeta{Namespace: ns, Name: "x"}, crashing))
				}
				revisions.Wait(time.Minute)
				for outcome, code := range outcomes {
					wantCrashLoop(e, strings.ToLower(outcome), code)
				}
			})
		})
	}
}

// wantCrashLoop checks that a namespace has one pod, with a container that has been restarted three times in
// a minute: at once, and after 10 and 20 s.
func wantCrashLoop(e controllerstest.Env, ns string, code int32) {
	e.Helper()
	all := &corev1.PodList{}
	e.Must(e.List(e.Context(), all, client.InNamespace(ns)))
	if len(all.Items) != 1 {
		e.Fatalf("%s: %d pods", ns, len(all.Items))
	}
	p := &all.Items[0]
	c := p.Status.ContainerStatuses[0]
	if w, end := c.State.Waiting, c.LastTerminationState.Terminated; p.Status.Phase != corev1.PodRunning || podstate.Ready(p) || c.Ready || c.RestartCount != 3 ||
		w == nil || w.Reason != "CrashLoopBackOff" || !strings.HasPrefix(w.Message, "back-off 40s restarting failed container=web pod=") ||
		end == nil || end.ExitCode != code {
		e.Errorf("%s: phase %s, %+v", ns, p.Status.Phase, c)
	}
	events := &corev1.EventList{}
	e.Must(e.List(e.Context(), events, client.InNamespace(ns)))
	for _, event := range events.Items {
		if event.Reason == "BackOff" && event.InvolvedObject.Name == p.Name && event.Count == 3 {
			return
		}
	}
	e.Errorf("%s: no event BackOff: %v", ns, e.Events("Pod", p.Name))
}

// TestCrashLoopingDeployment checks that a Deployment with crashing new pods keeps the old ones, and becomes available
// when the crashes end.
func TestCrashLoopingDeployment(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		outcome := func(value string) func(*appsv1.Deployment) {
			return func(d *appsv1.Deployment) {
				d.Spec.Template.Annotations = map[string]string{pods.OutcomeAnnotation: value}
			}
		}
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		e.ChangeDeployment(outcome(pods.Failed))
		time.Sleep(11 * time.Minute) // virtual
		if d := e.Deployment(); d.Status.AvailableReplicas != 3 || d.Status.UpdatedReplicas != 1 || d.Status.UnavailableReplicas != 1 ||
			d.Status.Conditions[0].Reason != "ProgressDeadlineExceeded" && d.Status.Conditions[1].Reason != "ProgressDeadlineExceeded" {
			t.Errorf("while it crashes: %+v", d.Status)
		}
		e.ChangeDeployment(outcome(pods.Running))
		e.WaitIdle()
		if d := e.Deployment(); !controllerstest.IsRolledOut(d) {
			t.Errorf("afterwards: %+v", d.Status)
		}
	})
}
