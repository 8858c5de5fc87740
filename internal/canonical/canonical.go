// Package canonical compares the objects of two runs by what they mean: UIDs, resource versions and generated names differ
// between any two runs, and say nothing.
package canonical

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kind returns the kind and group of an object.
func Kind(o *unstructured.Unstructured) string {
	gvk := o.GroupVersionKind()
	if gvk.Group == "" {
		return gvk.Kind
	}
	return gvk.Kind + "." + gvk.Group
}

// Outcome is the canonical form of a state: by kind and canonical name, the fields of the objects with that name.
// Objects with generated names share one entry for each prefix.
type Outcome map[string][]Fields

// Fields are the leaves of an object by their paths.
type Fields map[string]string

// Key returns the entry of an object in an outcome.
func (c *Form) Key(o *unstructured.Unstructured) string {
	return Kind(o) + " " + o.GetNamespace() + "/" + WithoutNumber(c.Text(o.GetName()))
}

// Text returns the fields, one a line, in the order of their paths.
func (f Fields) Text() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%s=%s\n", path, f[path])
	}
	return b.String()
}

// Form replaces what no two runs have in common by what it means.
type Form struct {
	// Ignored is the name of a member that is left out, such as an annotation, or empty.
	Ignored  string
	replacer *strings.Replacer
}

// New returns a form that replaces the UIDs of objects by their kinds and names, and names by others. Of two names with a common
// beginning the longer one is replaced.
func New(objects iter.Seq[*unstructured.Unstructured], names map[string]string) *Form {
	var pairs []string
	for o := range objects {
		if uid := string(o.GetUID()); uid != "" {
			pairs = append(pairs, uid, "uid("+Kind(o)+" "+o.GetNamespace()+"/"+o.GetName()+")")
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, name, names[name])
	}
	return Of(strings.NewReplacer(pairs...))
}

// Of returns a form with the replacements of a replacer.
func Of(r *strings.Replacer) *Form { return &Form{replacer: r} }

// Text returns a text with the replacements.
func (c *Form) Text(s string) string { return c.replacer.Replace(s) }

// WithoutNumber cuts the number from a canonical name.
func WithoutNumber(name string) string {
	if i := strings.IndexByte(name, '*'); i >= 0 {
		return name[:i+1] + strings.TrimLeft(name[i+1:], "0123456789")
	}
	return name
}

// Fields returns the leaves of an object. Identity and history are left out: the UID, the resource version, the
// generation and the managed fields. An observed generation is a relation to the generation.
func (c *Form) Fields(o *unstructured.Unstructured) Fields {
	f := Fields{}
	c.add(f, "", o.Object, o.GetGeneration())
	return f
}

var identity = map[string]bool{
	"metadata.uid": true, "metadata.resourceVersion": true, "metadata.generation": true, "metadata.managedFields": true,
	"metadata.name": true, "metadata.selfLink": true,
	// The number of a rollout.
	"metadata.annotations.deployment.kubernetes.io/revision": true, "metadata.annotations.deployment.kubernetes.io/revision-history": true,
}

// add adds the leaves of a value at a path.
func (c *Form) add(f Fields, path string, value any, generation int64) {
	if identity[path] {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			if key == c.Ignored {
				continue
			}
			next := key
			if path != "" {
				next = path + "." + key
			}
			c.add(f, next, element, generation)
		}
	case []any:
		if len(v) == 0 {
			f[path] = "[]"
		}
		for i, element := range v {
			c.add(f, path+"["+WithoutNumber(c.Text(elementName(element, i)))+"]", element, generation)
		}
	case string:
		f[path] = WithoutNumber(c.Text(v))
	case int64:
		if strings.HasSuffix(path, "bservedGeneration") {
			f[path] = "the generation"
			if v != generation {
				f[path] = "another generation"
			}
			return
		}
		f[path] = fmt.Sprint(v)
	default:
		encoded, _ := json.Marshal(v)
		f[path] = string(encoded)
	}
}

// elementName names an element of a list: by its type or name if it has one, as Kubernetes' lists of maps do.
func elementName(element any, i int) string {
	if m, ok := element.(map[string]any); ok {
		for _, key := range []string{"type", "name"} {
			if s, ok := m[key].(string); ok {
				return s
			}
		}
	}
	return fmt.Sprint(i)
}
