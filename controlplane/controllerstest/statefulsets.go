package controllerstest

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

// StatefulSet returns the StatefulSet [Web].
func StatefulSet(replicas int32, image string, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: Web.Namespace, Name: Web.Name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Template: Template(image), ServiceName: "peers",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// WithClaims adds a claim template of the default class, with a retention policy.
func WithClaims(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
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

// StatefulSet gets the StatefulSet [Web].
func (e Env) StatefulSet() *appsv1.StatefulSet {
	e.Helper()
	set := &appsv1.StatefulSet{}
	e.Must(e.Get(e.Context(), Web, set))
	return set
}

// WantClaims checks the names of the claims in phase Bound, with the kinds of their owners, sorted.
func (e Env) WantClaims(want ...string) {
	e.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(Web.Namespace)))
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
