package cache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"flyball.dev/ctrl/client"
)

// selectorMatch says whether an object matches the selectors of a part.
type selectorMatch uint8

const (
	// matchUnknown: only the server can evaluate the selector.
	matchUnknown selectorMatch = iota
	matches
	noMatch
)

// matchSelectors evaluates the part's selectors for an object that the server returned.
// Labels, name and namespace are evaluated here. Any other field of a field selector
// is defined by the server: it need not be a path in the object, nor have the value
// that is written there.
func (p *partition) matchSelectors(obj client.Object) selectorMatch {
	if s := p.config.LabelSelector; s != nil && !s.Matches(labels.Set(obj.GetLabels())) {
		return noMatch
	}
	return p.matchKey(client.ObjectKeyFromObject(obj))
}

// matchKey evaluates the part's field selector for the object with a key.
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
