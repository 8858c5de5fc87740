package framework

import (
	"iter"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
)

// labelSet is a set of labels as [labels.Labels]. It takes the memory of a pointer, because pods with the same labels share a text.
// Labels have neither an equals sign nor a comma.
type labelSet struct{ text unique.Handle[string] } // of labels.Set.String

var noLabels = unique.Make("")

func newLabelSet(set labels.Set) labelSet {
	if len(set) == 0 {
		return labelSet{noLabels}
	}
	return labelSet{unique.Make(set.String())}
}

// pairs returns the labels, each as key=value.
func (l labelSet) pairs() iter.Seq[string] {
	if l.empty() {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(l.text.Value(), ",")
}

func (l labelSet) empty() bool { return l.text == noLabels }

// Lookup implements [labels.Labels].
func (l labelSet) Lookup(label string) (string, bool) {
	for rest := l.text.Value(); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, ",")
		if key, value, _ := strings.Cut(pair, "="); key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements [labels.Labels].
func (l labelSet) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get implements [labels.Labels].
func (l labelSet) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}
