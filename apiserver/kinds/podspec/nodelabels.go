package podspec

// DeprecatedNodeLabel returns the message about a deprecated label of nodes, and false for other labels.
//
//upstream:pkg/api/node.GetNodeLabelDeprecatedMessage
func DeprecatedNodeLabel(key string) (message string, deprecated bool) {
	message, deprecated = deprecatedLabels[key]
	return message, deprecated
}
