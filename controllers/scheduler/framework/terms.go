package framework

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// terms are the terms of a pod's affinity to other pods.
type terms struct {
	affinity, antiAffinity           []term
	preferred, preferredAntiAffinity []term
}

// term is a term of the affinity to other pods.
//
//upstream:k8s.io/kube-scheduler/framework.AffinityTerm
type term struct {
	namespaces        sets.Set[string]
	namespaceSelector labels.Selector
	selector          labels.Selector
	topologyKey       string
	weight            int64  // of a preferred term
	key               string // the same for equal terms
}

// newTerms parses the affinity of a pod to other pods. It returns nil if it has none.
func newTerms(pod *corev1.Pod) (*terms, error) {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return nil, nil
	}
	t := &terms{}
	var first error
	required := func(list []corev1.PodAffinityTerm) (parsed []term) {
		for i := range list {
			p, err := newTerm(pod, &list[i], 1)
			parsed = append(parsed, p)
			if err != nil && first == nil {
				first = err
			}
		}
		return parsed
	}
	preferred := func(list []corev1.WeightedPodAffinityTerm) (parsed []term) {
		for i := range list {
			p, err := newTerm(pod, &list[i].PodAffinityTerm, int64(list[i].Weight))
			parsed = append(parsed, p)
			if err != nil && first == nil {
				first = err
			}
		}
		return parsed
	}
	if pa := a.PodAffinity; pa != nil {
		t.affinity, t.preferred = required(pa.RequiredDuringSchedulingIgnoredDuringExecution), preferred(pa.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pa := a.PodAntiAffinity; pa != nil {
		t.antiAffinity = required(pa.RequiredDuringSchedulingIgnoredDuringExecution)
		t.preferredAntiAffinity = preferred(pa.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return t, first
}

// newTerm parses a term. A term without namespaces is for the namespace of its pod.
//
//upstream:k8s.io/kube-scheduler/framework.newAffinityTerm
//upstream:k8s.io/kube-scheduler/framework.getNamespacesFromPodAffinityTerm
func newTerm(pod *corev1.Pod, of *corev1.PodAffinityTerm, weight int64) (term, error) {
	t := term{namespaces: sets.New(of.Namespaces...), topologyKey: of.TopologyKey, weight: weight}
	if len(of.Namespaces) == 0 && of.NamespaceSelector == nil {
		t.namespaces.Insert(pod.Namespace)
	}
	var err, nsErr error
	t.selector, err = metav1.LabelSelectorAsSelector(of.LabelSelector)
	t.namespaceSelector, nsErr = metav1.LabelSelectorAsSelector(of.NamespaceSelector)
	if err == nil {
		err = nsErr
	}
	if err != nil {
		t.selector, t.namespaceSelector = labels.Nothing(), labels.Nothing()
	}
	t.setKey()
	return t, err
}

// setKey sets the key of a term.
func (t *term) setKey() {
	t.key = strings.Join([]string{strings.Join(sets.List(t.namespaces), ","), selectorKey(t.namespaceSelector), selectorKey(t.selector),
		t.topologyKey, strconv.FormatInt(t.weight, 10)}, "|")
}

// selectorKey returns a string that differs for selectors that differ. Selectors for nothing and for everything share a string.
func selectorKey(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "!"
	}
	return s.String()
}

// matches reports whether a pod is one that a term is about.
//
//upstream:k8s.io/kube-scheduler/framework.AffinityTerm.Matches
func (t *term) matches(pod *Pod, namespace labels.Set) bool {
	return (t.namespaces.Has(pod.Namespace) || t.namespaceSelector.Matches(namespace)) && t.selector.Matches(pod.labels)
}

// resolved returns a term with the namespaces that its namespace selector selects now.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.mergeAffinityTermNamespacesIfNotEmpty
func (t term) resolved(o *Objects) term {
	if _, selectable := t.namespaceSelector.Requirements(); !selectable || t.namespaceSelector.Empty() {
		return t
	}
	t.namespaces = t.namespaces.Clone()
	for name, set := range o.namespaces {
		if t.namespaceSelector.Matches(set) {
			t.namespaces.Insert(name)
		}
	}
	t.namespaceSelector = labels.Nothing()
	t.setKey()
	return t
}
