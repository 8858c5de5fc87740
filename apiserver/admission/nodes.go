package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// taintNodes adds the not-ready taint to new nodes. It keeps pods away until the controller node-lifecycle removes it.
//
//upstream:plugin/pkg/admission/nodetaint.Plugin
type taintNodes struct{ *admission.Handler }

var _ admission.MutationInterface = taintNodes{}

func newTaintNodes(Environment) admission.Interface {
	return taintNodes{admission.NewHandler(admission.Create)}
}

// Admit implements [admission.MutationInterface].
func (taintNodes) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	node, ok := a.GetObject().(*corev1.Node)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&notReady) }) {
		node.Spec.Taints = append(node.Spec.Taints, notReady)
	}
	return nil
}

// podTopologyLabels copies the zone and the region of a node to the labels of a pod, when the pod is created with a
// node name or bound to a node.
//
//upstream:plugin/pkg/admission/podtopologylabels.Plugin
type podTopologyLabels struct {
	*admission.Handler
	nodes *stored.Reader[*corev1.Node]
}

var _ admission.MutationInterface = podTopologyLabels{}

func newPodTopologyLabels(e Environment) admission.Interface {
	return podTopologyLabels{admission.NewHandler(admission.Create),
		stored.NewReader[*corev1.Node](e, corev1.SchemeGroupVersion.WithResource("nodes"))}
}

// Admit implements [admission.MutationInterface].
func (p podTopologyLabels) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	var node string
	var labels *map[string]string
	switch obj := a.GetObject().(type) {
	case *corev1.Pod:
		if a.GetSubresource() == "" {
			node, labels = obj.Spec.NodeName, &obj.Labels
		}
	case *corev1.Binding:
		if a.GetSubresource() == "binding" && obj.Target.Kind == "Node" {
			node, labels = obj.Target.Name, &obj.Labels
		}
	}
	if node == "" {
		return nil
	}
	found, err := p.nodes.Get(ctx, "", node)
	if err != nil {
		if errors.IsNotFound(err) {
			return nil
		}
		return err
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := found.Labels[key]
		if !ok {
			continue
		}
		if *labels == nil {
			*labels = map[string]string{}
		}
		(*labels)[key] = value
	}
	return nil
}
