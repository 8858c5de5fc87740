package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// tolerationSeconds is how long a pod stays on a failed node, kube-apiserver's default.
const tolerationSeconds int64 = 300

// defaultTolerationSeconds adds tolerations for not-ready and unreachable nodes, with a time limit.
//
//upstream:plugin/pkg/admission/defaulttolerationseconds.Plugin
type defaultTolerationSeconds struct{ *admission.Handler }

var _ admission.MutationInterface = defaultTolerationSeconds{}

func newDefaultTolerationSeconds(Environment) admission.Interface {
	return defaultTolerationSeconds{admission.NewHandler(admission.Create, admission.Update)}
}

func (defaultTolerationSeconds) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	given := pod.Spec.Tolerations
	for _, taint := range [...]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(given, taint) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(tolerationSeconds),
			})
		}
	}
	return nil
}

// tolerates reports whether one of the tolerations matches the NoExecute effect of a taint.
func tolerates(all []corev1.Toleration, taint string) bool {
	for i := range all {
		t := &all[i]
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
