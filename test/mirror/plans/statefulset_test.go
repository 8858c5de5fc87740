package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/statefulset"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestStatefulSets compares which pods, claims and revisions a StatefulSet creates, updates and deletes, and its status.
func TestStatefulSets(t *testing.T) {
	comparison{
		name:   "statefulset",
		worlds: 2000,
		atLeast: map[string]int{"create pods": 20, "delete pods": 15, "update pods": 5, "create controllerrevisions.apps": 35,
			"create persistentvolumeclaims": 5, "update status of statefulsets.apps": 60},
		kinds: []client.Object{&appsv1.StatefulSet{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{}},
		add:   statefulset.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			s := upstream.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(), f.Core().V1().PersistentVolumeClaims(),
				f.Apps().V1().ControllerRevisions(), c)
			return func(ctx context.Context) { s.Run(ctx, 1) }, nil
		},
		generate: generateStatefulSet,
	}.compare(t)
}

func generateStatefulSet(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	set := &appsv1.StatefulSet{ObjectMeta: object(s, ns, "x"), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(s.IntN(5))), Selector: newSelector(s), Template: newTemplate(s), ServiceName: "svc",
		PodManagementPolicy: random.Pick(s, appsv1.OrderedReadyPodManagement, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement),
		UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, RevisionHistoryLimit: ptr.To(int32(s.IntN(3))),
		MinReadySeconds: random.Pick[int32](s, 0, 0, 0, 5, 30)}}
	delete(set.Spec.Template.Labels, "more")
	set.Spec.Template.Finalizers = nil
	if s.Chance(75) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(random.Pick[int32](s, 0, 0, 0, 1, 2, 5))}}
		if s.Chance(20) {
			set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(random.Pick(s, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%")))
		}
		// maxUnavailable counts the replicas from the partition on, as since Kubernetes 1.38.
		if r := set.Spec.UpdateStrategy.RollingUpdate; set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement ||
			r.MaxUnavailable != nil && r.MaxUnavailable.Type == intstr.String {
			*r.Partition = 0
		}
	}
	if s.Chance(15) {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: int32(s.IntN(3))}
	}
	if s.Chance(40) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}}
		if s.Chance(50) {
			policy := func() appsv1.PersistentVolumeClaimRetentionPolicyType {
				return random.Pick(s, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
			}
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: policy(), WhenScaled: policy()}
		}
	}
	// With the policy Parallel, Kubernetes 1.37 creates before it scales down, and 1.38 and ours after it. So such a StatefulSet has
	// either nothing to scale down, or nothing that refuses its replicas.
	parallel := set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	scalesDown := parallel && s.Chance(50)
	if scalesDown {
		set.Spec.VolumeClaimTemplates = nil
	}
	deleted(s, set)
	objects := []client.Object{set}
	// The revisions: of an earlier template, and of the template now.
	earlier := set.DeepCopy()
	earlier.Spec.Template.Spec.Containers[0].Image = "old"
	var names []string
	for i, of := range []*appsv1.StatefulSet{earlier, set} {
		if s.Chance(40) {
			continue
		}
		name := fmt.Sprintf("x-r%d", i)
		names = append(names, name)
		objects = append(objects, newRevision(s, of, name, int64(i+1)))
	}
	if len(names) > 0 && s.Chance(80) {
		set.Status.CurrentRevision, set.Status.UpdateRevision = random.Pick(s, names...), names[len(names)-1]
	}
	for i := range s.IntN(7) {
		pod := newSetPod(s, set, i, names)
		if o := set.Spec.Ordinals; parallel && !scalesDown && (i >= int(*set.Spec.Replicas) || o != nil) {
			continue
		}
		if scalesDown {
			pod.Labels["app"], pod.OwnerReferences = "x", []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
		}
		if s.Chance(75) {
			objects = append(objects, pod)
		}
		if s.Chance(50) && len(set.Spec.VolumeClaimTemplates) > 0 {
			objects = append(objects, newSetClaim(s, set, pod))
		}
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	if s.Chance(30) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	if scalesDown {
		return objects, set, nil
	}
	return objects, set, refusing(s, forbidden, "create pods", "delete pods", "create persistentvolumeclaims")
}

func newRevision(s *random.Source, set *appsv1.StatefulSet, name string, n int64) *appsv1.ControllerRevision {
	template, err := json.Marshal(map[string]any{"spec": map[string]any{"template": withPatch(set.Spec.Template)}})
	if err != nil {
		panic(err)
	}
	r := &appsv1.ControllerRevision{ObjectMeta: object(s, set.Namespace, name), Revision: n, Data: runtime.RawExtension{Raw: template}}
	r.Labels = map[string]string{"app": "x"}
	r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
	return r
}

// withPatch returns a template as a revision has it: it replaces the whole template.
func withPatch(t corev1.PodTemplateSpec) map[string]any {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	m["$patch"] = "replace"
	return m
}

// newSetClaim returns a claim of a pod, with owners that the policies add, and others.
func newSetClaim(s *random.Source, set *appsv1.StatefulSet, pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: object(s, set.Namespace, "data-"+pod.Name), Spec: set.Spec.VolumeClaimTemplates[0].Spec}
	for _, owner := range []client.Object{set, pod} {
		ref := *metav1.NewControllerRef(owner, kindOf(owner))
		switch s.IntN(12) {
		case 0, 1:
		case 2:
			ref.Controller = nil
		case 3:
			ref.UID = "earlier"
		case 4:
			ref.Kind, ref.Name, ref.UID = "Other", "other", "other"
		default:
			continue
		}
		claim.OwnerReferences = append(claim.OwnerReferences, ref)
	}
	if s.Chance(5) {
		claim.DeletionTimestamp, claim.Finalizers = ptr.To(metav1.NewTime(ago(s))), []string{"kubernetes.io/pvc-protection"}
	}
	return claim
}

func newSetPod(s *random.Source, set *appsv1.StatefulSet, i int, revisions []string) *corev1.Pod {
	meta := object(s, set.Namespace, fmt.Sprint("x-", i))
	meta.Labels, meta.OwnerReferences = map[string]string{"app": "x"}, []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
	if s.Chance(10) {
		meta.Labels, meta.OwnerReferences = labelled(s), ownedBy(s, set)
	}
	pod := newPod(s, meta)
	switch {
	case s.Chance(20):
		pod.Status.Phase = corev1.PodPending
	case s.Chance(75):
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ago(s))}}
	}
	pod.Annotations = nil
	if len(revisions) > 0 {
		pod.Labels[appsv1.StatefulSetRevisionLabel] = random.Pick(s, revisions...)
	}
	if s.Chance(90) {
		pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
		pod.Labels[appsv1.PodIndexLabel] = fmt.Sprint(i)
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, "svc"
	}
	for _, t := range set.Spec.VolumeClaimTemplates {
		if s.Chance(75) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: t.Name + "-" + pod.Name}}})
		}
	}
	return pod
}
