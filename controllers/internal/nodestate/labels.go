package nodestate

import corev1 "k8s.io/api/core/v1"

// deprecatedLabels are the old names of labels.
//
//upstream:pkg/controller/nodelifecycle.labelReconcileInfo
var deprecatedLabels = map[string]string{corev1.LabelOSStable: "beta.kubernetes.io/os", corev1.LabelArchStable: "beta.kubernetes.io/arch"}

// SetDeprecatedLabels gives the labels of a node their old names too, and reports whether a label has changed.
//
//upstream:pkg/controller/nodelifecycle.Controller.reconcileNodeLabels
func SetDeprecatedLabels(node *corev1.Node) (changed bool) {
	for name, old := range deprecatedLabels {
		if value, ok := node.Labels[name]; ok && node.Labels[old] != value {
			node.Labels[old], changed = value, true
		}
	}
	return changed
}
