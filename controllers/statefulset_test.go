package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

func statefulSet(replicas int32, image string, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Template: template(image), ServiceName: "peers",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// withClaims adds a claim template of the default class, with a retention policy.
func withClaims(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "db"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: whenScaled, WhenDeleted: whenDeleted}
	}
}

func (e env) statefulSet() *appsv1.StatefulSet {
	e.Helper()
	set := &appsv1.StatefulSet{}
	e.must(e.Get(e.Context(), web, set))
	return set
}

// changeSet patches the StatefulSet and waits until the controllers are idle.
func (e env) changeSet(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	e.Helper()
	set := e.statefulSet()
	before := client.MergeFrom(set.DeepCopy())
	change(set)
	e.must(e.Patch(e.Context(), set, before))
	e.waitIdle()
	return e.statefulSet()
}

func setOfImage(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func setOfReplicas(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

// wantMembers checks the name and the image of each pod, with "ready" if it is ready, sorted.
func (e env) wantMembers(want ...string) {
	e.Helper()
	list := &corev1.PodList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
	var got []string
	for _, p := range list.Items {
		state := p.Name + " " + p.Spec.Containers[0].Image
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				state += " ready"
			}
		}
		got = append(got, state)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		e.Errorf("the pods are %q, want %q", got, want)
	}
}

// wantRevisions checks the number and the image of each revision, sorted.
func (e env) wantRevisions(want ...string) {
	e.Helper()
	list := &appsv1.ControllerRevisionList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
	var got []string
	for _, r := range list.Items {
		_, image, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
		image, _, _ = strings.Cut(image, `"`)
		got = append(got, fmt.Sprint(r.Revision, " ", image))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		e.Errorf("the revisions are %q, want %q", got, want)
	}
}

// wantClaims checks the names of the claims in phase Bound, with the kinds of their owners, sorted.
func (e env) wantClaims(want ...string) {
	e.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
	var got []string
	for _, c := range list.Items {
		if c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil {
			e.Errorf("the claim %s is %s", c.Name, c.Status.Phase)
		}
		state := c.Name
		for _, ref := range c.OwnerReferences {
			state += " " + ref.Kind
		}
		got = append(got, state)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		e.Errorf("the claims are %q, want %q", got, want)
	}
}

func TestStatefulSetLifecycle(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(statefulSet(3, "a"))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 a ready")
		e.wantRevisions("1 a")
		s := e.statefulSet().Status
		if s.Replicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 ||
			s.CurrentRevision != s.UpdateRevision || s.ObservedGeneration != 1 || s.CollisionCount == nil {
			t.Errorf("status %+v", s)
		}
		pod := &corev1.Pod{}
		e.must(e.Get(e.Context(), client.ObjectKey{Namespace: web.Namespace, Name: "web-1"}, pod))
		if l := pod.Labels; l["statefulset.kubernetes.io/pod-name"] != "web-1" || l["apps.kubernetes.io/pod-index"] != "1" ||
			l["controller-revision-hash"] != s.CurrentRevision || pod.Spec.Hostname != "web-1" || pod.Spec.Subdomain != "peers" {
			t.Errorf("labels %v, hostname %q, subdomain %q", l, pod.Spec.Hostname, pod.Spec.Subdomain)
		}

		if s := e.changeSet(setOfImage("b")).Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 {
			t.Errorf("status %+v", s)
		}
		e.wantMembers("web-0 b ready", "web-1 b ready", "web-2 b ready")
		e.wantRevisions("1 a", "2 b")
		e.changeSet(setOfReplicas(1))
		e.wantMembers("web-0 b ready")
		e.changeSet(setOfImage("a")) // back: the first revision gets a new number
		e.wantMembers("web-0 a ready")
		e.wantRevisions("2 b", "3 a")
		e.changeSet(func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32) })
		e.wantRevisions("3 a")

		e.changeSet(func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} })
		e.wantMembers("web-5 a ready")
		e.must(e.Delete(e.Context(), e.statefulSet()))
		e.waitIdle()
		e.wantMembers()
		e.wantRevisions()
	})
}

// TestStatefulSetOrder creates and updates pods one after the other, and stops at a broken revision,
// which is not repaired by another update until the pod is deleted.
func TestStatefulSetOrder(t *testing.T) {
	inVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 7 * time.Second}}, func(e env) {
		e.create(statefulSet(3, "a"))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a")
		e.waitIdle()
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 a ready")
		e.changeSet(setOfImage("broken:404"))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 broken:404")
		e.changeSet(setOfImage("b"))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 broken:404")
		e.must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-2"}}))
		for range 4 {
			e.waitIdle()
		}
		e.wantMembers("web-0 b ready", "web-1 b ready", "web-2 b ready")
	})
}

func TestStatefulSetStrategies(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		two := int32(2)
		e.create(statefulSet(3, "a", func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &two}
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		}))
		e.waitIdle()
		set := e.changeSet(setOfImage("b"))
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 b ready")
		if s := set.Status; s.CurrentReplicas != 2 || s.UpdatedReplicas != 1 || s.CurrentRevision == s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
		// A pod below the partition is created from the current revision.
		e.must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-0"}}))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 b ready")
		e.changeSet(func(set *appsv1.StatefulSet) { *set.Spec.UpdateStrategy.RollingUpdate.Partition = 0 })
		e.wantMembers("web-0 b ready", "web-1 b ready", "web-2 b ready")

		e.changeSet(func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			setOfImage("c")(set)
		})
		e.wantMembers("web-0 b ready", "web-1 b ready", "web-2 b ready")
		e.must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-1"}}))
		e.waitIdle()
		e.wantMembers("web-0 b ready", "web-1 c ready", "web-2 b ready")
		for _, name := range []string{"web-0", "web-2"} {
			e.must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name}}))
			e.waitIdle()
		}
		e.wantMembers("web-0 c ready", "web-1 c ready", "web-2 c ready")
		// Operators that replace the pods themselves rely on it.
		if s := e.statefulSet().Status; s.CurrentRevision == s.UpdateRevision || s.CurrentReplicas != 0 || s.UpdatedReplicas != 3 {
			t.Errorf("status %+v", s)
		}
		e.changeSet(func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		})
		if s := e.statefulSet().Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 {
			t.Errorf("status of a rolling update %+v", s)
		}
	})
}

func TestStatefulSetMinReadySeconds(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(statefulSet(2, "a", func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 60 }))
		e.waitIdle()
		e.wantMembers("web-0 a ready")
		if s := e.statefulSet().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready")
		if s := e.statefulSet().Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 1 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		if s := e.statefulSet().Status; s.AvailableReplicas != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestStatefulSetParallel creates and updates all pods at once.
func TestStatefulSetParallel(t *testing.T) {
	inVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 7 * time.Second}}, func(e env) {
		e.create(statefulSet(4, "a", func(set *appsv1.StatefulSet) {
			three := intstr.FromInt32(3)
			set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &three}}
		}))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 a ready", "web-3 a ready")
		e.changeSet(setOfImage("b"))
		e.wantMembers("web-0 b", "web-1 b ready", "web-2 b ready", "web-3 b ready") // web-0 is deleted when the others are ready
	})
}

// TestStatefulSetReplacesPods creates pods again that are deleted, or terminate, and adopts only pods
// with names of its own.
func TestStatefulSetReplacesPods(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		for _, name := range []string{"web-0", "web-x", "other-1"} {
			e.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name,
				Labels: map[string]string{"app": "web"}}, Spec: template("z").Spec})
		}
		e.create(statefulSet(2, "a"))
		e.waitIdle()
		set := e.statefulSet()
		pod := func(name string) *corev1.Pod {
			p := &corev1.Pod{}
			e.must(e.Get(e.Context(), client.ObjectKey{Namespace: web.Namespace, Name: name}, p))
			return p
		}
		e.wantMembers("other-1 z ready", "web-0 a ready", "web-1 a ready", "web-x z ready")
		for name, owned := range map[string]bool{"web-0": true, "web-1": true, "web-x": false, "other-1": false} {
			if metav1.IsControlledBy(pod(name), set) != owned {
				t.Errorf("%s: owners %v", name, pod(name).OwnerReferences)
			}
		}
		e.must(e.Delete(e.Context(), pod("web-1")))
		for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
			was := pod("web-0")
			was.Status.Phase = phase
			e.must(e.Status().Update(e.Context(), was))
			e.waitIdle()
			if is := pod("web-0"); is.UID == was.UID || is.Status.Phase != corev1.PodRunning {
				t.Errorf("a pod that is %s was not replaced: %s", phase, is.Status.Phase)
			}
		}
		e.wantMembers("other-1 z ready", "web-0 a ready", "web-1 a ready", "web-x z ready")
	})
}

// TestStatefulSetClaims provisions the claims of a StatefulSet, keeps them when it is scaled down or
// deleted, and uses them again.
func TestStatefulSetClaims(t *testing.T) {
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	inVirtualTime(t, controllers.Options{}, func(e env) {
		set := func() *appsv1.StatefulSet { return statefulSet(2, "a", withClaims(retain, retain)) }
		e.create(set())
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready")
		e.wantClaims("data-web-0", "data-web-1")
		claim := &corev1.PersistentVolumeClaim{}
		e.must(e.Get(e.Context(), client.ObjectKey{Namespace: web.Namespace, Name: "data-web-1"}, claim))
		if claim.Labels["app"] != "web" || claim.Labels["tier"] != "db" || *claim.Spec.StorageClassName != "standard" ||
			claim.Annotations["volume.kubernetes.io/selected-node"] != pods.NodeName {
			t.Errorf("labels %v, annotations %v, class %q", claim.Labels, claim.Annotations, *claim.Spec.StorageClassName)
		}
		if v := e.pod("web-1").Spec.Volumes[0]; v.Name != "data" || v.PersistentVolumeClaim.ClaimName != "data-web-1" {
			t.Errorf("volume %+v", v)
		}
		volume := &corev1.PersistentVolume{}
		e.must(e.Get(e.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
		if volume.Status.Phase != corev1.VolumeBound || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			volume.Annotations["pv.kubernetes.io/provisioned-by"] != "rancher.io/local-path" {
			t.Errorf("volume %+v", volume)
		}

		e.changeSet(setOfReplicas(0))
		e.must(e.Delete(e.Context(), e.statefulSet()))
		e.waitIdle()
		e.wantMembers()
		e.wantClaims("data-web-0", "data-web-1")
		e.create(set())
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready")
		was := claim.UID
		if e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim)); claim.UID != was {
			t.Error("the claim is another one")
		}

		// A claim that is deleted goes when its pod does, and is created again before the pod is.
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle()
		e.must(e.Delete(e.Context(), e.pod("web-1")))
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready")
		e.wantClaims("data-web-0", "data-web-1")
		if e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim)); claim.UID == was {
			t.Error("the claim is still the same")
		}
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(volume), volume); !apierrors.IsNotFound(err) {
			t.Errorf("the volume of the deleted claim: %v", err)
		}
	})
}

// TestStatefulSetRetention deletes claims by the retention policy, which may change.
func TestStatefulSetRetention(t *testing.T) {
	const (
		retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	)
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(statefulSet(3, "a", withClaims(retain, remove)))
		e.waitIdle()
		e.wantClaims("data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet")
		e.changeSet(setOfReplicas(2))
		e.wantClaims("data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet")
		e.changeSet(setOfReplicas(3))
		e.changeSet(func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = remove
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = retain
		})
		e.wantClaims("data-web-0", "data-web-1", "data-web-2")
		e.changeSet(setOfReplicas(1))
		e.wantMembers("web-0 a ready")
		e.wantClaims("data-web-0")
		e.changeSet(setOfReplicas(3))
		e.wantMembers("web-0 a ready", "web-1 a ready", "web-2 a ready")
		e.wantClaims("data-web-0", "data-web-1", "data-web-2")
		e.changeSet(func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = remove
		})
		e.must(e.Delete(e.Context(), e.statefulSet()))
		e.waitIdle()
		e.wantMembers()
		e.wantClaims()
		volumes := &corev1.PersistentVolumeList{}
		if e.must(e.List(e.Context(), volumes)); len(volumes.Items) > 0 {
			t.Errorf("%d volumes are left", len(volumes.Items))
		}
	})
}

// TestPodsWaitForClaims creates pods before their claims and volumes.
func TestPodsWaitForClaims(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		using := func(claim string) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			}
		}
		unschedulable := func(reason string) string {
			return "Pending Unschedulable: 0/1 nodes are available: " + reason + ". no new claims to deallocate, preemption: " +
				"0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		}
		e.waitIdle()
		e.create(one("p", "a", using("missing")), one("q", "a", using("many")))
		e.waitIdle()
		e.wantScheduled("p", unschedulable(`persistentvolumeclaim "missing" not found`))
		e.create(newClaim("missing", "1Gi", ""))
		many := newClaim("many", "1Gi", "standard")
		many.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		e.create(many)
		e.waitIdle()
		e.wantScheduled("p", unschedulable("pod has unbound immediate PersistentVolumeClaims"))
		e.wantScheduled("q", `Pending on "flyball"`) // the provisioner has no volumes with that access mode
		if s := e.pod("q").Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "ContainerCreating" {
			t.Errorf("containers %+v", s)
		}
		shared := newVolume("shared", "1Gi", "standard")
		shared.Spec.AccessModes = many.Spec.AccessModes
		e.create(newVolume("v", "1Gi", ""), shared)
		e.waitIdle()
		e.wantScheduled("p", `Running on "flyball"`)
		e.wantScheduled("q", `Running on "flyball"`)
	})
}

// TestStatefulSetRevisionNameIsTaken creates a StatefulSet when the name of its revision is taken.
func TestStatefulSetRevisionNameIsTaken(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(statefulSet(1, "a"))
		e.waitIdle()
		name := e.statefulSet().Status.UpdateRevision
		e.must(e.Delete(e.Context(), e.statefulSet()))
		e.waitIdle()
		e.create(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name},
			Data: runtime.RawExtension{Raw: []byte(`{"other":"data"}`)}})
		e.create(statefulSet(1, "a"))
		e.waitIdle()
		s := e.statefulSet().Status
		if s.UpdateRevision == name || s.CurrentRevision != s.UpdateRevision || s.CollisionCount == nil || *s.CollisionCount != 1 || s.ReadyReplicas != 1 {
			t.Errorf("status %+v", s)
		}
		e.wantRevisions("0 ", "1 a")
	})
}

// TestStatefulSetEvents checks the events about actions and failures, and the retry.
func TestStatefulSetEvents(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "pods"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
		e.create(quota)
		e.waitIdle()
		e.create(statefulSet(2, "a"))
		e.waitIdle()
		e.wantMembers("web-0 a ready")
		e.must(e.Delete(e.Context(), quota))
		time.Sleep(10 * time.Minute) // virtual: the maximal backoff
		e.waitIdle()
		e.wantMembers("web-0 a ready", "web-1 a ready")
		e.changeSet(setOfReplicas(1))
		list := &corev1.EventList{}
		e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace)))
		var got []string
		for _, event := range list.Items {
			if event.InvolvedObject.Kind == "StatefulSet" {
				message, _, _ := strings.Cut(event.Message, `: pods "web-1" is forbidden: exceeded quota`)
				got = append(got, event.Reason+": "+message)
			}
		}
		slices.Sort(got)
		if want := []string{
			"FailedCreate: Create Pod web-1 in StatefulSet web failed error",
			"SuccessfulCreate: Create Pod web-0 in StatefulSet web successful",
			"SuccessfulCreate: Create Pod web-1 in StatefulSet web successful",
			"SuccessfulDelete: Delete Pod web-1 in StatefulSet web successful",
		}; !slices.Equal(slices.Compact(got), want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// TestStatefulSetClaimIsDeleted creates a pod again, without a retry, when a claim that was being deleted
// is gone.
func TestStatefulSetClaimIsDeleted(t *testing.T) {
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	inVirtualTime(t, controllers.Options{}, func(e env) {
		claim := newClaim("data-web-0", "1Gi", "")
		claim.Finalizers = []string{"example.com/wait"}
		e.create(claim)
		e.must(e.Delete(e.Context(), claim))
		e.waitIdle() // else the controller may not know yet
		e.create(statefulSet(1, "a", withClaims(retain, retain)))
		time.Sleep(time.Hour) // virtual
		e.waitIdle()
		e.wantMembers()
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		claim.Finalizers = nil
		e.must(e.Update(e.Context(), claim))
		e.waitIdle()
		e.wantMembers("web-0 a ready")
		e.wantClaims("data-web-0")
	})
}
