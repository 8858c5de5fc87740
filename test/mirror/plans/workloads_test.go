package plans

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// generations counts the worlds, so that each has a namespace of its own, and the controllers remember nothing of it.
var generations int

// moments counts the times of the objects.
var moments int

func namespace() string {
	generations++
	return fmt.Sprint("w", generations)
}

// object returns the metadata of an object.
func object(s *random.Source, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Generation: 1 + int64(s.IntN(3)),
		CreationTimestamp: metav1.NewTime(ago(s))}
}

// ago returns a time before now, which no other object of a world has. So no order depends on the order of a map.
func ago(s *random.Source) time.Time {
	moments++
	return s.Now.Truncate(time.Second).Add(-time.Duration(random.Pick(s, 1, 2, 5, 10, 30, 60, 600, 3600)+moments%97) * time.Second)
}

// ownedBy returns references to owners. One of the owners may be a controller.
func ownedBy(s *random.Source, owner client.Object) []metav1.OwnerReference {
	ref := *metav1.NewControllerRef(owner, kindOf(owner))
	other := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other"}
	switch s.IntN(14) {
	case 0:
		return nil
	case 1:
		return []metav1.OwnerReference{other}
	case 2:
		return []metav1.OwnerReference{other, ref}
	case 3:
		other.Controller = ptr.To(true)
		return []metav1.OwnerReference{other}
	case 4:
		ref.UID = "earlier" // an owner of the same name that was deleted
		return []metav1.OwnerReference{ref}
	case 5:
		ref.Controller = nil
		return []metav1.OwnerReference{ref}
	}
	return []metav1.OwnerReference{ref}
}

// labelled returns labels that mostly match app=x.
func labelled(s *random.Source) map[string]string {
	l := map[string]string{"app": "x"}
	if s.Chance(12) {
		l["app"] = "y"
	}
	if s.Chance(30) {
		l["more"] = random.Pick(s, "a", "b")
	}
	return l
}

// newPod returns a pod in some state.
func newPod(s *random.Source, meta metav1.ObjectMeta) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod.Status.Phase = random.Pick(s, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded,
		corev1.PodFailed, corev1.PodUnknown)
	if s.Chance(80) {
		pod.Spec.NodeName = random.Pick(s, "a", "b", "c")
	}
	if s.Chance(12) {
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(ago(s)))
		pod.DeletionGracePeriodSeconds = ptr.To(int64(30))
	}
	if s.Chance(70) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady,
			Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown), LastTransitionTime: metav1.NewTime(ago(s))})
	}
	if s.Chance(20) {
		pod.Annotations = map[string]string{corev1.PodDeletionCost: random.Pick(s, "5", "-5", "100", "x", "", "+5", "007", "-0", "3000000000")}
	}
	restarted := func(name string) []corev1.ContainerStatus {
		if s.Chance(40) {
			return []corev1.ContainerStatus{{Name: name, RestartCount: int32(s.IntN(4))}}
		}
		return nil
	}
	pod.Status.ContainerStatuses = restarted("c")
	if s.Chance(20) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "i"}}
		if s.Chance(70) {
			pod.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Status.InitContainerStatuses = restarted("s")
	}
	return pod
}

// newTemplate returns the template of a pod.
func newTemplate(s *random.Source) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: random.Pick(s, "i", "j", "k")}}}}
	if s.Chance(30) {
		t.Labels["more"] = random.Pick(s, "a", "b")
	}
	if s.Chance(20) {
		t.Annotations = map[string]string{"note": "n"}
	}
	if s.Chance(10) {
		t.Finalizers = []string{"example.com/f"}
	}
	return t
}

// newSelector returns a selector of app=x.
func newSelector(s *random.Source) *metav1.LabelSelector {
	l := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	switch s.IntN(20) {
	case 0:
		l.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "more", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}}
	case 1:
		l = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "z"}}}}
	}
	return l
}

// deleted sometimes marks an object as being deleted.
func deleted(s *random.Source, o client.Object) {
	if s.Chance(6) {
		o.SetDeletionTimestamp(ptr.To(metav1.NewTime(ago(s))))
		o.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	}
}

// refusing returns a function that sometimes refuses writes that begin with a text.
func refusing(s *random.Source, err error, writes ...string) func(string, key) error {
	if !s.Chance(10) {
		return nil
	}
	refused := random.Pick(s, writes...)
	return func(verb string, k key) error {
		if strings.HasPrefix(verb+" "+k.GroupResource.String(), refused) {
			return err
		}
		return nil
	}
}
