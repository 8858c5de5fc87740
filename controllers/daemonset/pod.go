package daemonset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podcontrol"
	"flyball.dev/controllers/internal/podstate"
)

// The labels of a pod with its revision.
const (
	// hashLabel has the hash of the template. A ControllerRevision has it too.
	hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey
	// generationLabel has the generation of the template.
	//upstream:k8s.io/api/extensions/v1beta1.DaemonSetTemplateGenerationKey
	generationLabel = "pod-template-generation"
)

// generationOf returns the generation of the template, or "" if the annotation does not have a number.
//
//upstream:pkg/controller/daemon/util.GetTemplateGeneration
func generationOf(set *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// updated reports whether a pod has the present template.
//
//upstream:pkg/controller/daemon/util.IsPodUpdated
func (o *observed) updated(pod *corev1.Pod) bool {
	generation := generationOf(o.set)
	return o.hash != "" && pod.Labels[hashLabel] == o.hash || generation != "" && pod.Labels[generationLabel] == generation
}

// newPod returns the pod for a node. Its affinity requires the node, so that the scheduler binds the pod to no other.
//
//upstream:pkg/controller/daemon/util.CreatePodTemplate
//upstream:pkg/controller/daemon/util.ReplaceDaemonSetPodNodeNameNodeAffinity
func (o *observed) newPod(node string) *corev1.Pod {
	pod := podcontrol.FromTemplate(&o.set.Spec.Template, o.set, kind)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if generation := generationOf(o.set); generation != "" {
		pod.Labels[generationLabel] = generation
	}
	if o.hash != "" {
		pod.Labels[hashLabel] = o.hash
	}
	pod.Spec.Tolerations = slices.Clone(o.tolerations)
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}
	return pod
}

// nodeOf returns the node that a pod is bound to or requires, or "" if it requires none.
//
//upstream:pkg/controller/daemon/util.GetTargetNodeName
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if len(r.Values) != 1 {
				return ""
			}
			return r.Values[0]
		}
	}
	return ""
}

// compareAge orders the pods on a node: bound ones first, and then from the oldest to the newest.
//
//upstream:pkg/controller/daemon.podByCreationTimestampAndPhase
func compareAge(a, b *corev1.Pod) int {
	return cmp.Or(compareBound(a, b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// compareBound orders bound pods before others.
func compareBound(a, b *corev1.Pod) int {
	switch bound := a.Spec.NodeName != ""; {
	case bound == (b.Spec.NodeName != ""):
		return 0
	case bound:
		return -1
	}
	return 1
}

// available reports whether a pod has been ready for minReadySeconds.
func (o *observed) available(pod *corev1.Pod) bool {
	ok, _ := podstate.Available(pod, o.minReady(), o.now)
	return ok
}

// minReady is the time for which a pod must be ready before it is available.
func (o *observed) minReady() time.Duration {
	return time.Duration(o.set.Spec.MinReadySeconds) * time.Second
}
