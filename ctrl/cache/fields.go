package cache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/client"
)

// membership says whether an object matches the selectors of a part.
type membership uint8

const (
	// unknown: only the server can evaluate the selector.
	unknown membership = iota
	member
	noMember
)

// selects evaluates the part's selectors for an object that the server returned.
// Labels, name and namespace are evaluated here. Any other field of a field selector
// is defined by the server: it need not be a path in the object, nor have the value
// that is written there.
func (p *part) selects(obj client.Object) membership {
	if s := p.config.LabelSelector; s != nil && !s.Matches(labels.Set(obj.GetLabels())) {
		return noMember
	}
	return p.selectsKey(client.ObjectKeyFromObject(obj))
}

// selectsKey evaluates the part's field selector for the object with a key.
func (p *part) selectsKey(key client.ObjectKey) membership {
	if p.config.FieldSelector == nil {
		return member
	}
	result := member
	for _, r := range p.config.FieldSelector.Requirements() {
		var value string
		switch r.Field {
		case nameField:
			value = key.Name
		case namespaceField:
			value = key.Namespace
		default:
			result = unknown
			continue
		}
		if (r.Operator == selection.NotEquals) == (value == r.Value) {
			return noMember
		}
	}
	return result
}
