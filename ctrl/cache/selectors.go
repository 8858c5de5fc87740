package cache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/client"
)

// selectorMatch is whether an object matches the selectors of a partition.
type selectorMatch uint8

const (
	// matchUnknown: only the server can evaluate the field selector.
	matchUnknown selectorMatch = iota
	matches
	noMatch
)

// matchSelectors evaluates the partition's selectors for an object that the server returned.
// Labels, name and namespace are evaluated here. All other fields of a field selector are defined
// by the server: they need not be paths in the object, nor have the value that the object has
// there.
func (p *partition) matchSelectors(obj client.Object) selectorMatch {
	if s := p.config.LabelSelector; s != nil && !s.Matches(labels.Set(obj.GetLabels())) {
		return noMatch
	}
	return p.matchKey(client.ObjectKeyFromObject(obj))
}

// matchKey evaluates the partition's field selector for a key, as far as the key determines it.
func (p *partition) matchKey(key client.ObjectKey) selectorMatch {
	if p.config.FieldSelector == nil {
		return matches
	}
	result := matches
	for _, r := range p.config.FieldSelector.Requirements() {
		var value string
		switch r.Field {
		case nameField:
			value = key.Name
		case namespaceField:
			value = key.Namespace
		default:
			result = matchUnknown
			continue
		}
		if (r.Operator == selection.NotEquals) == (value == r.Value) {
			return noMatch
		}
	}
	return result
}
