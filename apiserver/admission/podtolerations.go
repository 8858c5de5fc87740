package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// Annotations of a namespace with JSON lists of tolerations for its pods.
const (
	defaultTolerationsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedTolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// podTolerations adds the default tolerations to new pods, and rejects tolerations outside the whitelist. For both
// lists, the namespace takes precedence over the configuration.
//
//upstream:plugin/pkg/admission/podtolerationrestriction.Plugin
type podTolerations struct {
	*admission.Handler
	namespaces    stored.Namespaces
	configuration tolerationConfiguration
}

// tolerationConfiguration is the configuration of the plugin PodTolerationRestriction.
type tolerationConfiguration struct {
	Default []corev1.Toleration `json:"default,omitempty"`
	Allowed []corev1.Toleration `json:"whitelist,omitempty"`
}

var (
	_ admission.MutationInterface   = (*podTolerations)(nil)
	_ admission.ValidationInterface = (*podTolerations)(nil)
)

func newPodTolerations(e Environment, data []byte) (admission.Interface, error) {
	p := &podTolerations{Handler: admission.NewHandler(admission.Create, admission.Update), namespaces: stored.NewNamespaces(e)}
	return p, decodeConfiguration(data, "podtolerationrestriction.admission.k8s.io", &p.configuration)
}

// Admit implements [admission.MutationInterface].
func (p *podTolerations) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	var more []corev1.Toleration
	if a.GetOperation() == admission.Create {
		given, ok, err := p.annotated(ctx, a.GetNamespace(), defaultTolerationsAnnotation)
		if err != nil {
			return err
		}
		if !ok {
			given = p.configuration.Default
		}
		more = slices.Clone(given)
	}
	if !bestEffort(pod) {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, more)
	}
	return p.Validate(ctx, a, o)
}

// Validate implements [admission.ValidationInterface].
func (p *podTolerations) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	scope := "namespace"
	allowed, ok, err := p.annotated(ctx, a.GetNamespace(), allowedTolerationsAnnotation)
	if err != nil {
		return err
	}
	if !ok {
		scope, allowed = "cluster", p.configuration.Allowed
	}
	for _, t := range pod.Spec.Tolerations {
		if len(allowed) > 0 && !slices.ContainsFunc(allowed, func(by corev1.Toleration) bool { return includes(by, t) }) {
			return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
		}
	}
	return nil
}

// annotated returns the tolerations in an annotation of a namespace. ok is false if the namespace lacks the annotation.
func (p *podTolerations) annotated(ctx context.Context, name, annotation string) (list []corev1.Toleration, ok bool, err error) {
	namespace, err := p.namespaces.Get(ctx, "", name)
	if err != nil {
		if !errors.IsNotFound(err) {
			err = errors.NewInternalError(err)
		}
		return nil, false, err
	}
	text, ok := namespace.Annotations[annotation]
	if text != "" {
		err = json.Unmarshal([]byte(text), &list)
	}
	return list, ok, err
}

// mergeTolerations returns the tolerations of both lists, without tolerations that another one covers.
//
//upstream:pkg/util/tolerations.MergeTolerations
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i, t := range all {
		before := func(by corev1.Toleration) bool { return includes(by, t) }
		after := func(by corev1.Toleration) bool { return includes(by, t) && !equality.Semantic.DeepEqual(by, t) }
		if !slices.ContainsFunc(merged, before) && !slices.ContainsFunc(all[i+1:], after) {
			merged = append(merged, t)
		}
	}
	return merged
}

// includes reports whether by tolerates every taint that t tolerates.
//
//upstream:pkg/util/tolerations.isSuperset
func includes(by, t corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(by, t):
		return true
	case by.Key != t.Key && (by.Key != "" || by.Operator != corev1.TolerationOpExists), by.Effect != t.Effect && by.Effect != "":
		return false
	}
	if limit := by.TolerationSeconds; limit != nil && by.Effect == corev1.TaintEffectNoExecute &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *limit) {
		return false
	}
	switch by.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == by.Value
	}
	return false
}

// bestEffort reports whether the QoS class of a pod is BestEffort, without requests and limits.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	var lists []corev1.ResourceList
	if r := pod.Spec.Resources; r != nil {
		lists = append(lists, r.Requests, r.Limits)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		lists = append(lists, c.Resources.Requests, c.Resources.Limits)
	}
	return !slices.ContainsFunc(lists, func(l corev1.ResourceList) bool { return l.Cpu().Sign() > 0 || l.Memory().Sign() > 0 })
}
