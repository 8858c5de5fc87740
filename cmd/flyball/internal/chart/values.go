package chart

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// values are values of a chart, in their order.
type values []entry

// entry is a value: either YAML or nested values.
type entry struct {
	key, comment string
	value        any
}

// text returns values as YAML with comments.
func (v values) text() ([]byte, error) {
	var out bytes.Buffer
	for i, e := range v {
		if i > 0 {
			out.WriteByte('\n')
		}
		if err := e.write(&out, ""); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func (e entry) write(out *bytes.Buffer, indent string) error {
	if e.comment != "" {
		for line := range strings.SplitSeq(e.comment, "\n") {
			fmt.Fprintf(out, "%s# %s\n", indent, line)
		}
	}
	if group, ok := e.value.(values); ok {
		fmt.Fprintf(out, "%s%s:\n", indent, e.key)
		for _, child := range group {
			if err := child.write(out, indent+"  "); err != nil {
				return err
			}
		}
		return nil
	}
	content, err := encode(map[string]any{e.key: e.value})
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		out.WriteString(indent + line)
	}
	return nil
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// MergeValues updates the content of values.yaml. A value that the user has not edited since the last generation
// becomes the newly generated value; the user's changes, additions and removals stay. MergeValues returns the names of
// edited values with a new generated value.
func MergeValues(edited, last, generated []byte) (merged []byte, kept []string, err error) {
	var now, old, next yaml.Node
	for _, d := range []struct {
		content []byte
		node    *yaml.Node
	}{{edited, &now}, {last, &old}, {generated, &next}} {
		if err := yaml.Unmarshal(d.content, d.node); err != nil {
			return nil, nil, err
		}
	}
	m := &merger{}
	if len(now.Content) == 0 { // it has no values
		return generated, nil, nil
	}
	if now.Content[0].Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d: the values are not a mapping", now.Content[0].Line)
	}
	m.merge(now.Content[0], root(&old), root(&next), "")
	if !m.changed {
		return edited, m.kept, nil
	}
	merged, err = encode(&now)
	return merged, m.kept, err
}

func root(document *yaml.Node) *yaml.Node {
	if len(document.Content) == 0 {
		return &yaml.Node{Kind: yaml.MappingNode}
	}
	return document.Content[0]
}

// merger merges values.
type merger struct {
	changed bool
	kept    []string
}

// merge merges three versions of a mapping: the current one, the last generated one, and the newly generated one.
func (m *merger) merge(now, old, next *yaml.Node, path string) {
	for i := 0; i+1 < len(next.Content); i += 2 {
		key := next.Content[i].Value
		generated, before, current := next.Content[i+1], get(old, key), get(now, key)
		name := strings.TrimPrefix(path+"."+key, ".")
		switch {
		case current == nil && before == nil:
			now.Content = append(now.Content, next.Content[i], generated)
			now.Style, m.changed = 0, true
		case current == nil: // a person has removed it
		case current.Kind == yaml.MappingNode && generated.Kind == yaml.MappingNode:
			m.merge(current, before, generated, name)
		case equal(current, generated):
		case before != nil && equal(current, before):
			*current = *generated
			m.changed = true
		case before == nil || !equal(before, generated):
			m.kept = append(m.kept, name)
		}
	}
	for i := 0; old != nil && i+1 < len(old.Content); i += 2 { // values that are not generated any more
		key := old.Content[i].Value
		if at := index(now, key); at >= 0 && index(next, key) < 0 && equal(now.Content[at+1], old.Content[i+1]) {
			now.Content = slices.Delete(now.Content, at, at+2)
			m.changed = true
		}
	}
}

func equal(a, b *yaml.Node) bool { return reflect.DeepEqual(decoded(a), decoded(b)) }
