package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// runtimeClass applies the RuntimeClass of a new pod: it sets the overhead, and adds the node selector and the
// tolerations.
//
//upstream:plugin/pkg/admission/runtimeclass.RuntimeClass
type runtimeClass struct {
	*admission.Handler
	classes *stored.Reader[*nodev1.RuntimeClass]
}

var (
	_ admission.MutationInterface   = (*runtimeClass)(nil)
	_ admission.ValidationInterface = (*runtimeClass)(nil)
)

func newRuntimeClass(o Environment) admission.Interface {
	return &runtimeClass{
		Handler: admission.NewHandler(admission.Create),
		classes: stored.NewReader[*nodev1.RuntimeClass](o, nodev1.SchemeGroupVersion.WithResource("runtimeclasses")),
	}
}

// Admit sets the overhead of new pods and merges the scheduling constraints of their RuntimeClass.
func (r *runtimeClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || pod.Spec.RuntimeClassName == nil {
		return nil
	}
	class, err := r.classes.Get(ctx, "", *pod.Spec.RuntimeClassName)
	if errors.IsNotFound(err) {
		return admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName))
	}
	if err != nil {
		return err
	}
	if class.Overhead != nil {
		if given := pod.Spec.Overhead; len(given) > 0 && !apiequality.Semantic.DeepEqual(given, class.Overhead.PodFixed) {
			return admission.NewForbidden(a, errOverhead)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		if given, ok := pod.Spec.NodeSelector[key]; ok && given != value {
			return admission.NewForbidden(a,
				fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
					key, value, key, given))
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = value
	}
	for _, t := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(given corev1.Toleration) bool {
			return apiequality.Semantic.DeepEqual(given, t)
		}) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, *t.DeepCopy())
		}
	}
	return nil
}

var errOverhead = fmt.Errorf("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// Validate refuses a pod if its overhead differs from the overhead of its class.
func (r *runtimeClass) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || pod.Spec.Overhead == nil && pod.Spec.RuntimeClassName == nil {
		return nil
	}
	var want corev1.ResourceList
	if pod.Spec.RuntimeClassName != nil {
		class, err := r.classes.Get(ctx, "", *pod.Spec.RuntimeClassName)
		if err != nil {
			return err
		}
		if class.Overhead != nil {
			want = class.Overhead.PodFixed
		}
	}
	switch {
	case want == nil && pod.Spec.Overhead != nil:
		return admission.NewForbidden(a,
			fmt.Errorf("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	case !apiequality.Semantic.DeepEqual(want, pod.Spec.Overhead):
		return admission.NewForbidden(a, errOverhead)
	}
	return nil
}
