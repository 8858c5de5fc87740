package cache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/client"
)

// membership is whether a part is to hold an object.
type membership uint8

const (
	// unknown: only the server can tell.
	unknown membership = iota
	member
	noMember
)

// selects tells whether the part is to hold an object that the server has answered
// with. Labels, name and namespace are in the object. What another field selector
// looks at, and how, is up to the server: it need not be a path in the object, nor
// be compared as it is written there.
func (p *part) selects(obj client.Object) membership {
	if s := p.config.LabelSelector; s != nil && !s.Matches(labels.Set(obj.GetLabels())) {
		return noMember
	}
	return p.selectsKey(client.ObjectKeyFromObject(obj))
}

// selectsKey tells whether the part is to hold the object of a key, if its labels
// match.
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
