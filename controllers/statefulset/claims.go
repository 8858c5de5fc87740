package statefulset

import (
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// claimTemplates returns the templates of the claims of a pod. If several have the same name, the last one counts.
//
//upstream:pkg/controller/statefulset.getPersistentVolumeClaims
func claimTemplates(set *appsv1.StatefulSet) []*corev1.PersistentVolumeClaim {
	all := set.Spec.VolumeClaimTemplates
	var templates []*corev1.PersistentVolumeClaim
	for i := range all {
		if !slices.ContainsFunc(all[i+1:], func(later corev1.PersistentVolumeClaim) bool {
			return later.Name == all[i].Name
		}) {
			templates = append(templates, &all[i])
		}
	}
	return templates
}

// claimName returns the name of the claim of a template for the pod with an ordinal.
//
//upstream:pkg/controller/statefulset.getPersistentVolumeClaimName
func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return template.Name + "-" + set.Name + "-" + strconv.Itoa(ordinal)
}

// newClaim returns the claim of a template for a pod. It has no owners yet.
//
//upstream:pkg/controller/statefulset.getPersistentVolumeClaims
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	c := template.DeepCopy()
	c.Name, c.Namespace = claimName(set, template, ordinal), set.Namespace
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
	return c
}

// retention returns the retention policy of the claims.
//
//upstream:pkg/controller/statefulset.getPersistentVolumeClaimRetentionPolicy
func retention(set *appsv1.StatefulSet) (whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return p.WhenScaled, p.WhenDeleted
}

// podKind is the kind of the pods that own claims.
var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// refersTo reports whether an owner reference has an object's kind and name.
//
//upstream:pkg/controller/statefulset.matchesRef
func refersTo(ref *metav1.OwnerReference, gvk schema.GroupVersionKind, name string) bool {
	return ref.APIVersion == gvk.GroupVersion().String() && ref.Kind == gvk.Kind && ref.Name == name
}

// hasStalePodOwner reports whether an earlier pod of the same name owns a claim. The garbage collector then deletes the
// claim.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.PodClaimIsStale
func hasStalePodOwner(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return refersTo(&ref, podKind, pod.Name) && ref.UID != pod.UID
	})
}

// claimOwners returns the owner references that a claim of a pod should have. It keeps the references to other owners.
// By the retention policy it adds a reference to the pod, if the pod is scaled down, or to the StatefulSet. conflict
// reports whether another controller owns the claim, so that the policy cannot apply. The references of a claim of an
// earlier StatefulSet or pod of the same name do not change.
//
//upstream:pkg/controller/statefulset.hasUnexpectedController
//upstream:pkg/controller/statefulset.isClaimOwnerUpToDate
//upstream:pkg/controller/statefulset.updateClaimOwnerRefForSetAndPod
func claimOwners(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod,
	ordinal int) (refs []metav1.OwnerReference, conflict bool) {
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	whenScaled, whenDeleted := retention(set)
	applies := whenScaled == remove || whenDeleted == remove
	has := claim.OwnerReferences
	for i := range has {
		if refersTo(&has[i], kind, set.Name) && has[i].UID != set.UID ||
			refersTo(&has[i], podKind, pod.Name) && has[i].UID != pod.UID {
			return has, applies
		}
		if !refersTo(&has[i], kind, set.Name) && !refersTo(&has[i], podKind, pod.Name) {
			refs = append(refs, has[i])
		}
	}
	controlled := slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
	switch {
	case !applies:
	case controlled:
		return refs, true
	case whenScaled == remove && !inRange(set, ordinal):
		refs = append(refs, *metav1.NewControllerRef(pod, podKind))
	case whenDeleted == remove:
		refs = append(refs, *metav1.NewControllerRef(set, kind))
	}
	return refs, false
}

// sameOwners reports whether two lists have the same references in any order.
func sameOwners(a, b []metav1.OwnerReference) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x metav1.OwnerReference) bool {
		return !slices.ContainsFunc(b, func(y metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(x, y) })
	})
}
