package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// nodeSelectorAnnotation is the annotation of a namespace with the node selector for its pods.
const nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// podNodeSelector adds the node selector of the namespace to a new pod. It does not support the plugin's configuration
// of cluster defaults and allowed selectors.
//
//upstream:plugin/pkg/admission/podnodeselector.Plugin
type podNodeSelector struct {
	*admission.Handler
	namespaces stored.Namespaces
}

var (
	_ admission.MutationInterface   = podNodeSelector{}
	_ admission.ValidationInterface = podNodeSelector{}
)

func newPodNodeSelector(e Environment) admission.Interface {
	return podNodeSelector{admission.NewHandler(admission.Create), stored.NewNamespaces(e)}
}

// Admit implements [admission.MutationInterface].
func (p podNodeSelector) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	selector, err := p.check(ctx, a, pod.Name, pod.Spec.NodeSelector)
	if err != nil {
		return err
	}
	pod.Spec.NodeSelector = labels.Merge(selector, pod.Spec.NodeSelector)
	return nil
}

// Validate implements [admission.ValidationInterface].
func (p podNodeSelector) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	_, err := p.check(ctx, a, pod.Name, pod.Spec.NodeSelector)
	return err
}

// check returns the selector of the namespace. It fails if the selector of the pod conflicts with it.
func (p podNodeSelector) check(ctx context.Context, a admission.Attributes, pod string, given labels.Set) (labels.Set, error) {
	namespace, err := p.namespaces.Get(ctx, "", a.GetNamespace())
	if err != nil {
		if errors.IsNotFound(err) {
			return nil, err
		}
		return nil, errors.NewInternalError(err)
	}
	selector, err := labels.ConvertSelectorToLabelsMap(namespace.Annotations[nodeSelectorAnnotation])
	if err != nil {
		return nil, err
	}
	if labels.Conflicts(selector, given) {
		return nil, errors.NewForbidden(a.GetResource().GroupResource(), pod,
			fmt.Errorf("pod node label selector conflicts with its namespace node label selector"))
	}
	return selector, nil
}
