package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

var web = client.ObjectKey{Namespace: "default", Name: "web"}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

func deployment(replicas int32, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Template: template(image),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
}

func (e env) deployment() *appsv1.Deployment {
	e.Helper()
	d := &appsv1.Deployment{}
	e.must(e.Get(e.Context(), web, d))
	return d
}

// change patches the Deployment and waits until the controllers are idle.
func (e env) change(change func(*appsv1.Deployment)) *appsv1.Deployment {
	e.Helper()
	d := e.deployment()
	before := client.MergeFrom(d.DeepCopy())
	change(d)
	e.must(e.Patch(e.Context(), d, before))
	e.waitIdle()
	return e.deployment()
}

// pods returns the image of each pod and whether it is ready, sorted.
func (e env) pods() []string {
	e.Helper()
	list := &corev1.PodList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
	var described []string
	for _, p := range list.Items {
		state := p.Spec.Containers[0].Image
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				state += " ready"
			}
		}
		described = append(described, state)
	}
	slices.Sort(described)
	return described
}

func (e env) wantPods(described ...string) {
	e.Helper()
	if got := e.pods(); !slices.Equal(got, described) {
		e.Errorf("the pods are %q, want %q", got, described)
	}
}

// sets returns the revision, image and replicas of each ReplicaSet, sorted by revision.
func (e env) sets() []string {
	e.Helper()
	list := &appsv1.ReplicaSetList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
	var described []string
	for _, rs := range list.Items {
		described = append(described, fmt.Sprint(rs.Annotations["deployment.kubernetes.io/revision"], " ", rs.Spec.Template.Spec.Containers[0].Image, " ", *rs.Spec.Replicas))
	}
	slices.Sort(described)
	return described
}

func (e env) wantSets(described ...string) {
	e.Helper()
	if got := e.sets(); !slices.Equal(got, described) {
		e.Errorf("the sets are %q, want %q", got, described)
	}
}

func setImage(image string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
}

func setReplicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// isRolledOut is the condition that "kubectl rollout status" waits for.
func isRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.Replicas == d.Status.UpdatedReplicas && d.Status.AvailableReplicas == d.Status.UpdatedReplicas
}

func TestDeploymentLifecycle(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(deployment(3, "a"))
		e.waitIdle()
		e.wantPods("a ready", "a ready", "a ready")
		e.wantSets("1 a 3")
		if d := e.deployment(); !isRolledOut(d) || d.Annotations["deployment.kubernetes.io/revision"] != "1" || d.Generation != 1 {
			t.Errorf("generation %d, status %+v, annotations %v", d.Generation, d.Status, d.Annotations)
		}

		if d := e.change(setImage("b")); !isRolledOut(d) {
			t.Errorf("status %+v", d.Status)
		}
		e.wantPods("b ready", "b ready", "b ready")
		e.wantSets("1 a 0", "2 b 3")

		e.change(setReplicas(1))
		e.wantPods("b ready")

		e.change(setImage("a")) // back
		e.wantPods("a ready")
		e.wantSets("2 b 0", "3 a 1")

		e.change(func(d *appsv1.Deployment) { d.Spec.Paused = true; setImage("c")(d) })
		e.wantPods("a ready")
		e.change(func(d *appsv1.Deployment) { d.Spec.Paused = false })
		e.wantPods("c ready")

		limit := int32(0)
		e.change(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &limit })
		e.wantSets("4 c 1")

		e.must(e.Delete(e.Context(), e.deployment()))
		e.waitIdle()
		e.wantPods()
		e.wantSets()
	})
}

func TestRecreate(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		d := deployment(2, "a")
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		e.create(d)
		e.waitIdle()
		e.change(setImage("b"))
		e.wantPods("b ready", "b ready")
	})
}

func TestStuckRollout(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(deployment(4, "a"))
		e.waitIdle()
		e.change(func(d *appsv1.Deployment) {
			setImage("b")(d)
			d.Spec.Template.Annotations = map[string]string{pods.OutcomeAnnotation: pods.NeverReady}
		})
		e.wantPods("a ready", "a ready", "a ready", "b", "b")
		time.Sleep(11 * time.Minute) // virtual
		e.waitIdle()
		if !slices.ContainsFunc(e.deployment().Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
		}) {
			t.Errorf("conditions %+v", e.deployment().Status.Conditions)
		}
	})
}

func TestMinReadySeconds(t *testing.T) {
	inVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 3 * time.Second}}, func(e env) {
		d := deployment(1, "a")
		d.Spec.MinReadySeconds = 60
		e.create(d)
		e.waitIdle() // 10 seconds: ready after 3
		if s := e.deployment().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		if s := e.deployment().Status; s.AvailableReplicas != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestReplicaSetAdoptsReleasesAndReplaces(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}, Spec: template("a").Spec}
		e.create(stray)
		n := int32(3)
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("a")},
		}
		e.create(rs)
		e.waitIdle()
		e.wantPods("a ready", "a ready", "a ready")
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if !metav1.IsControlledBy(stray, rs) {
			t.Error("the stray pod was not adopted")
		}

		before := client.MergeFrom(stray.DeepCopy())
		stray.Labels = map[string]string{"app": "other"}
		e.must(e.Patch(e.Context(), stray, before))
		e.waitIdle()
		e.wantPods("a ready", "a ready", "a ready", "a ready")
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if len(stray.OwnerReferences) > 0 {
			t.Error("the pod was not released")
		}
		e.must(e.Delete(e.Context(), stray))

		list := &corev1.PodList{}
		e.must(e.List(e.Context(), list, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
		e.must(e.Delete(e.Context(), &list.Items[0]))
		e.waitIdle()
		e.wantPods("a ready", "a ready", "a ready")

		e.must(e.Delete(e.Context(), rs, client.PropagationPolicy(orphan)))
		e.waitIdle()
		e.wantPods("a ready", "a ready", "a ready")
	})
}

func TestPodLifecycle(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ips := map[string]bool{}
		for i := range 3 {
			e.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}, Spec: template("a").Spec})
		}
		ended := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "z", Annotations: map[string]string{pods.OutcomeAnnotation: pods.Succeeded}}, Spec: template("a").Spec}
		ended.Spec.RestartPolicy = corev1.RestartPolicyNever
		e.create(ended)
		e.waitIdle()
		list := &corev1.PodList{}
		e.must(e.List(e.Context(), list, client.InNamespace("default")))
		for _, p := range list.Items {
			ips[p.Status.PodIP] = true
			want := corev1.PodRunning
			if p.Name == "z" {
				want = corev1.PodSucceeded
			}
			if p.Status.Phase != want || p.Spec.NodeName != pods.NodeName || p.Status.StartTime == nil {
				t.Errorf("%s: %+v", p.Name, p.Status)
			}
		}
		if len(ips) != 4 || ips[""] {
			t.Errorf("addresses %v", ips)
		}
		node := &corev1.Node{}
		e.must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
		if len(node.Status.Conditions) != 1 || node.Status.Conditions[0].Status != corev1.ConditionTrue {
			t.Errorf("the node: %+v", node.Status)
		}
		e.must(e.Delete(e.Context(), &list.Items[0])) // with 30 seconds of grace
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(&list.Items[0]), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod still exists: %v", err)
		}
	})
}

func TestNamespacesHaveAServiceAccount(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		e.waitIdle()
		e.must(e.Get(e.Context(), client.ObjectKey{Namespace: "team", Name: "default"}, &corev1.ServiceAccount{}))
	})
}

func TestUnknownController(t *testing.T) {
	if err := controllers.AddAll(nil, controllers.Options{Without: []string{"podz"}}); err == nil {
		t.Error("there was no error for an unknown name")
	}
}

// interrupted is a storage that fails the first deletion of a pod.
type interrupted struct {
	storage.Store
	done atomic.Bool
}

func (s *interrupted) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	if strings.Contains(key, "/pods/") && s.done.CompareAndSwap(false, true) {
		return nil, errors.New("interrupted")
	}
	return s.Store.Delete(ctx, key, revision)
}

// TestInterruptedDeletion deletes a pod, which is marked and then not removed.
func TestInterruptedDeletion(t *testing.T) {
	backend := &interrupted{Store: memory.New(memory.Options{})}
	withControlPlane(t, controlplane.Options{Storage: backend}, func(e env) {
		pod := quotaPod("a", "")
		e.create(pod)
		e.waitIdle()
		if err := e.Delete(e.Context(), pod, client.GracePeriodSeconds(0)); err == nil || !backend.done.Load() {
			t.Errorf("the deletion was not interrupted: %v", err)
		}
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is %+v, %v", pod.ObjectMeta, err)
		}
	})
}
