package statefulset_test

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
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// changeSet patches the StatefulSet and waits until the controllers are idle.
func changeSet(e controllerstest.Env, change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	e.Helper()
	set := e.StatefulSet()
	before := client.MergeFrom(set.DeepCopy())
	change(set)
	e.Must(e.Patch(e.Context(), set, before))
	e.WaitIdle()
	return e.StatefulSet()
}

func setOfImage(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func setOfReplicas(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

// wantMembers checks the name and the image of each pod, with "ready" if it is ready, sorted.
func wantMembers(e controllerstest.Env, want ...string) {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
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
func wantRevisions(e controllerstest.Env, want ...string) {
	e.Helper()
	list := &appsv1.ControllerRevisionList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
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

func TestStatefulSetLifecycle(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(3, "a"))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 a ready")
		wantRevisions(e, "1 a")
		s := e.StatefulSet().Status
		if s.Replicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 ||
			s.CurrentRevision != s.UpdateRevision || s.ObservedGeneration != 1 || s.CollisionCount == nil {
			t.Errorf("status %+v", s)
		}
		pod := &corev1.Pod{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: "web-1"}, pod))
		if l := pod.Labels; l["statefulset.kubernetes.io/pod-name"] != "web-1" || l["apps.kubernetes.io/pod-index"] != "1" ||
			l["controller-revision-hash"] != s.CurrentRevision || pod.Spec.Hostname != "web-1" || pod.Spec.Subdomain != "peers" {
			t.Errorf("labels %v, hostname %q, subdomain %q", l, pod.Spec.Hostname, pod.Spec.Subdomain)
		}

		if s := changeSet(e, setOfImage("b")).Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 {
			t.Errorf("status %+v", s)
		}
		wantMembers(e, "web-0 b ready", "web-1 b ready", "web-2 b ready")
		wantRevisions(e, "1 a", "2 b")
		changeSet(e, setOfReplicas(1))
		wantMembers(e, "web-0 b ready")
		changeSet(e, setOfImage("a")) // back: the first revision gets a new number
		wantMembers(e, "web-0 a ready")
		wantRevisions(e, "2 b", "3 a")
		changeSet(e, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32) })
		wantRevisions(e, "3 a")

		changeSet(e, func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} })
		wantMembers(e, "web-5 a ready")
		e.Must(e.Delete(e.Context(), e.StatefulSet()))
		e.WaitIdle()
		wantMembers(e)
		wantRevisions(e)
	})
}

// TestStatefulSetOrder creates and updates pods one after the other, and stops at a broken revision,
// which is not repaired by another update until the pod is deleted.
func TestStatefulSetOrder(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 7 * time.Second}}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(3, "a"))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a")
		e.WaitIdle()
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 a ready")
		changeSet(e, setOfImage("broken:404"))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 broken:404")
		changeSet(e, setOfImage("b"))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 broken:404")
		e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "web-2"}}))
		for range 4 {
			e.WaitIdle()
		}
		wantMembers(e, "web-0 b ready", "web-1 b ready", "web-2 b ready")
	})
}

func TestStatefulSetStrategies(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		two := int32(2)
		e.CreateAll(controllerstest.StatefulSet(3, "a", func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &two}
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		}))
		e.WaitIdle()
		set := changeSet(e, setOfImage("b"))
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 b ready")
		if s := set.Status; s.CurrentReplicas != 2 || s.UpdatedReplicas != 1 || s.CurrentRevision == s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
		// A pod below the partition is created from the current revision.
		e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "web-0"}}))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 b ready")
		changeSet(e, func(set *appsv1.StatefulSet) { *set.Spec.UpdateStrategy.RollingUpdate.Partition = 0 })
		wantMembers(e, "web-0 b ready", "web-1 b ready", "web-2 b ready")

		changeSet(e, func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			setOfImage("c")(set)
		})
		wantMembers(e, "web-0 b ready", "web-1 b ready", "web-2 b ready")
		e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "web-1"}}))
		e.WaitIdle()
		wantMembers(e, "web-0 b ready", "web-1 c ready", "web-2 b ready")
		for _, name := range []string{"web-0", "web-2"} {
			e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name}}))
			e.WaitIdle()
		}
		wantMembers(e, "web-0 c ready", "web-1 c ready", "web-2 c ready")
		if s := e.StatefulSet().Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 {
			t.Errorf("status %+v", s)
		}
		changeSet(e, func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		})
		if s := e.StatefulSet().Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 {
			t.Errorf("status of a rolling update %+v", s)
		}
	})
}

func TestStatefulSetMinReadySeconds(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(2, "a", func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 60 }))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready")
		if s := e.StatefulSet().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
		if s := e.StatefulSet().Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 1 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if s := e.StatefulSet().Status; s.AvailableReplicas != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestStatefulSetParallel creates and updates all pods at once.
func TestStatefulSetParallel(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 7 * time.Second}}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(4, "a", func(set *appsv1.StatefulSet) {
			three := intstr.FromInt32(3)
			set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &three}}
		}))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 a ready", "web-3 a ready")
		changeSet(e, setOfImage("b"))
		wantMembers(e, "web-0 b", "web-1 b ready", "web-2 b ready", "web-3 b ready") // web-0 is deleted when the others are ready
	})
}

// TestStatefulSetParallelInQuota: pods that are scaled down make room for a replica that the quota refuses.
func TestStatefulSetParallelInQuota(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(5, "a", func(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }))
		e.WaitIdle()
		e.CreateAll(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "q"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("4")}}})
		e.WaitIdle()
		changeSet(e, setOfReplicas(7))
		e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "web-0"}}))
		e.WaitIdle()
		wantMembers(e, "web-1 a ready", "web-2 a ready", "web-3 a ready", "web-4 a ready")
		changeSet(e, setOfReplicas(2))
		time.Sleep(time.Minute) // virtual; the creation is tried again
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
	})
}

// TestStatefulSetReplacesPods creates pods again that are deleted, or terminate, and adopts only pods
// with names of its own.
func TestStatefulSetReplacesPods(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		for _, name := range []string{"web-0", "web-x", "other-1"} {
			e.CreateAll(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name,
				Labels: map[string]string{"app": "web"}}, Spec: controllerstest.Template("z").Spec})
		}
		e.CreateAll(controllerstest.StatefulSet(2, "a"))
		e.WaitIdle()
		set := e.StatefulSet()
		pod := func(name string) *corev1.Pod {
			p := &corev1.Pod{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: name}, p))
			return p
		}
		wantMembers(e, "other-1 z ready", "web-0 a ready", "web-1 a ready", "web-x z ready")
		for name, owned := range map[string]bool{"web-0": true, "web-1": true, "web-x": false, "other-1": false} {
			if metav1.IsControlledBy(pod(name), set) != owned {
				t.Errorf("%s: owners %v", name, pod(name).OwnerReferences)
			}
		}
		e.Must(e.Delete(e.Context(), pod("web-1")))
		for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
			was := pod("web-0")
			was.Status.Phase = phase
			e.Must(e.Status().Update(e.Context(), was))
			e.WaitIdle()
			if is := pod("web-0"); is.UID == was.UID || is.Status.Phase != corev1.PodRunning {
				t.Errorf("a pod that is %s was not replaced: %s", phase, is.Status.Phase)
			}
		}
		wantMembers(e, "other-1 z ready", "web-0 a ready", "web-1 a ready", "web-x z ready")
	})
}

// TestStatefulSetClaims provisions the claims of a StatefulSet, keeps them when it is scaled down or
// deleted, and uses them again.
func TestStatefulSetClaims(t *testing.T) {
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		set := func() *appsv1.StatefulSet {
			return controllerstest.StatefulSet(2, "a", controllerstest.WithClaims(retain, retain))
		}
		e.CreateAll(set())
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
		e.WantClaims("data-web-0", "data-web-1")
		claim := &corev1.PersistentVolumeClaim{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: "data-web-1"}, claim))
		if claim.Labels["app"] != "web" || claim.Labels["tier"] != "db" || *claim.Spec.StorageClassName != "standard" ||
			claim.Annotations["volume.kubernetes.io/selected-node"] != pods.NodeName {
			t.Errorf("labels %v, annotations %v, class %q", claim.Labels, claim.Annotations, *claim.Spec.StorageClassName)
		}
		if v := e.Pod("web-1").Spec.Volumes[0]; v.Name != "data" || v.PersistentVolumeClaim.ClaimName != "data-web-1" {
			t.Errorf("volume %+v", v)
		}
		volume := &corev1.PersistentVolume{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
		if volume.Status.Phase != corev1.VolumeBound || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			volume.Annotations["pv.kubernetes.io/provisioned-by"] != "rancher.io/local-path" {
			t.Errorf("volume %+v", volume)
		}

		changeSet(e, setOfReplicas(0))
		e.Must(e.Delete(e.Context(), e.StatefulSet()))
		e.WaitIdle()
		wantMembers(e)
		e.WantClaims("data-web-0", "data-web-1")
		e.CreateAll(set())
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
		was := claim.UID
		if e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim)); claim.UID != was {
			t.Error("the claim is another one")
		}

		// A claim that is deleted goes when its pod does, and is created again before the pod is.
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), e.Pod("web-1")))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
		e.WantClaims("data-web-0", "data-web-1")
		if e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim)); claim.UID == was {
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
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(3, "a", controllerstest.WithClaims(retain, remove)))
		e.WaitIdle()
		e.WantClaims("data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet")
		changeSet(e, setOfReplicas(2))
		e.WantClaims("data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet")
		changeSet(e, setOfReplicas(3))
		changeSet(e, func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = remove
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = retain
		})
		e.WantClaims("data-web-0", "data-web-1", "data-web-2")
		changeSet(e, setOfReplicas(1))
		wantMembers(e, "web-0 a ready")
		e.WantClaims("data-web-0")
		changeSet(e, setOfReplicas(3))
		wantMembers(e, "web-0 a ready", "web-1 a ready", "web-2 a ready")
		e.WantClaims("data-web-0", "data-web-1", "data-web-2")
		changeSet(e, func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = remove
		})
		e.WantClaims("data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet")
		e.Must(e.Delete(e.Context(), e.StatefulSet()))
		e.WaitIdle()
		wantMembers(e)
		e.WantClaims()
		volumes := &corev1.PersistentVolumeList{}
		if e.Must(e.List(e.Context(), volumes)); len(volumes.Items) > 0 {
			t.Errorf("%d volumes are left", len(volumes.Items))
		}
	})
}

// TestStatefulSetRevisionNameIsTaken creates a StatefulSet when the name of its revision is taken.
func TestStatefulSetRevisionNameIsTaken(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.StatefulSet(1, "a"))
		e.WaitIdle()
		name := e.StatefulSet().Status.UpdateRevision
		e.Must(e.Delete(e.Context(), e.StatefulSet()))
		e.WaitIdle()
		e.CreateAll(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name},
			Data: runtime.RawExtension{Raw: []byte(`{"other":"data"}`)}})
		e.CreateAll(controllerstest.StatefulSet(1, "a"))
		e.WaitIdle()
		s := e.StatefulSet().Status
		if s.UpdateRevision == name || s.CurrentRevision != s.UpdateRevision || s.CollisionCount == nil || *s.CollisionCount != 1 || s.ReadyReplicas != 1 {
			t.Errorf("status %+v", s)
		}
		wantRevisions(e, "0 ", "1 a")
	})
}

// TestStatefulSetEvents checks the events about actions and failures, and the retry.
// TestStatefulSetOrphans deletes a StatefulSet without its pods and revisions, and creates it again several times. Each
// adopts the pods and the one revision.
func TestStatefulSetOrphans(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		for range 3 {
			e.CreateAll(controllerstest.StatefulSet(2, "app:1"))
			e.WaitIdle()
			revisions := &appsv1.ControllerRevisionList{}
			e.Must(e.List(e.Context(), revisions))
			if len(revisions.Items) != 1 || metav1.GetControllerOf(&revisions.Items[0]).UID != e.StatefulSet().UID {
				t.Fatalf("there are %d revisions, and the owners of the first are %+v", len(revisions.Items), revisions.Items[0].OwnerReferences)
			}
			e.Must(e.Delete(e.Context(), e.StatefulSet(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			e.WaitIdle()
			wantMembers(e, "web-0 app:1 ready", "web-1 app:1 ready")
		}
	})
}

func TestStatefulSetEvents(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "pods"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
		e.CreateAll(quota)
		e.WaitIdle()
		e.CreateAll(controllerstest.StatefulSet(2, "a"))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready")
		e.Must(e.Delete(e.Context(), quota))
		time.Sleep(10 * time.Minute) // virtual: the maximal backoff
		e.WaitIdle()
		wantMembers(e, "web-0 a ready", "web-1 a ready")
		changeSet(e, setOfReplicas(1))
		list := &corev1.EventList{}
		e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
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
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		claim := controllerstest.Claim("data-web-0", "1Gi", "")
		claim.Finalizers = []string{"example.com/wait"}
		e.CreateAll(claim)
		e.Must(e.Delete(e.Context(), claim))
		e.WaitIdle() // else the controller may not know yet
		e.CreateAll(controllerstest.StatefulSet(1, "a", controllerstest.WithClaims(retain, retain)))
		time.Sleep(time.Hour) // virtual
		e.WaitIdle()
		wantMembers(e)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		claim.Finalizers = nil
		e.Must(e.Update(e.Context(), claim))
		e.WaitIdle()
		wantMembers(e, "web-0 a ready")
		e.WantClaims("data-web-0")
	})
}
