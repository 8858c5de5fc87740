package chart

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object is an object as a YAML tree. Markers in the tree stand for template text.
type object struct {
	root  *yaml.Node
	texts []func(indent string) string // of the markers, by their numbers
}

// newObject returns the object with a content.
func newObject(content map[string]any) (*object, error) {
	o := &object{root: &yaml.Node{}}
	if err := o.root.Encode(content); err != nil {
		return nil, err
	}
	nameFirst(o.root)
	return o, nil
}

// nameFirst moves the name to the front of list items.
func nameFirst(n *yaml.Node) {
	for _, child := range n.Content {
		nameFirst(child)
		if i := index(child, "name"); n.Kind == yaml.SequenceNode && i > 0 {
			pair := slices.Clone(child.Content[i : i+2])
			child.Content = slices.Concat(pair, child.Content[:i], child.Content[i+2:])
		}
	}
}

// index returns the index of a key in the content of a mapping, or -1.
func index(n *yaml.Node, key string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// get returns the node at a path of keys, or nil.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		i := index(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// value returns the scalar at a path, or "".
func value(n *yaml.Node, path ...string) string {
	if n = get(n, path...); n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// items returns the items of the list at a path.
func items(n *yaml.Node, path ...string) []*yaml.Node {
	if n = get(n, path...); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// decoded returns the Go value of a node, or nil.
func decoded(n *yaml.Node) (v any) {
	if n != nil {
		_ = n.Decode(&v) // it was encoded
	}
	return v
}

// set sets a key of a mapping.
func set(n *yaml.Node, key string, value *yaml.Node) {
	if i := index(n, key); i >= 0 {
		n.Content[i+1] = value
		return
	}
	n.Content = append(n.Content, scalar(key), value)
	n.Style = 0 // {} is of one line
}

// mapping returns the mapping at a key. It adds the mapping if it is missing.
func mapping(n *yaml.Node, key string) *yaml.Node {
	if m := get(n, key); m != nil && m.Kind == yaml.MappingNode {
		return m
	}
	m := &yaml.Node{Kind: yaml.MappingNode}
	set(n, key, m)
	return m
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

func null() *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"} }

func (o *object) kind() string { return value(o.root, "kind") }
func (o *object) name() string { return value(o.root, "metadata", "name") }
func (o *object) group() string {
	group, _, found := strings.Cut(value(o.root, "apiVersion"), "/")
	if !found {
		return ""
	}
	return group
}

// same reports whether two objects have the same name and kind.
func (o *object) same(other *object) bool {
	return o.group() == other.group() && o.kind() == other.kind() && o.name() == other.name() &&
		value(o.root, "metadata", "namespace") == value(other.root, "metadata", "namespace")
}

// marker returns a name that stands for a text.
func (o *object) marker(prefix string, text func(indent string) string) string {
	o.texts = append(o.texts, text)
	return fmt.Sprintf("%s%dx", prefix, len(o.texts)-1)
}

// expression returns a scalar, in quotes, with the text of a template.
func (o *object) expression(text string) *yaml.Node {
	return scalar(o.marker("flyballscalar", func(string) string { return text }))
}

// line returns a node that is replaced by lines: a list item, or a key with the value null.
func (o *object) line(text func(indent string) string) *yaml.Node {
	return scalar(o.marker("flyballline", text))
}

func fixed(text string) func(string) string {
	return func(indent string) string { return indent + text }
}

// lines returns lines of text with an indentation.
func lines(all ...string) func(string) string {
	return func(indent string) string { return indent + strings.Join(all, "\n"+indent) }
}

// when wraps a key of a mapping in a condition.
func (o *object) when(n *yaml.Node, key, condition string) {
	i := index(n, key)
	if i < 0 || condition == "" {
		return
	}
	begin, end := o.line(fixed("{{- if "+condition+" }}")), o.line(fixed("{{- end }}"))
	n.Content = slices.Insert(n.Content, i+2, end, null())
	n.Content = slices.Insert(n.Content, i, begin, null())
}

// add adds lines to a mapping.
func (o *object) add(n *yaml.Node, text func(string) string) {
	n.Content = append(n.Content, o.line(text), null())
	n.Style = 0
}

// conditional returns the items of a list. Items with a condition are wrapped in it.
func (o *object) conditional(list []*yaml.Node, condition func(*yaml.Node) string) []*yaml.Node {
	var all []*yaml.Node
	for _, item := range list {
		c := condition(item)
		if c == "" {
			all = append(all, item)
			continue
		}
		all = append(all, o.line(fixed("{{- if "+c+" }}")), item, o.line(fixed("{{- end }}")))
	}
	return all
}

var (
	scalarMarker = regexp.MustCompile(`flyballscalar(\d+)x`)
	lineMarker   = regexp.MustCompile(`(?m)^( *)(?:- )?flyballline(\d+)x(?:: null)?$`)
)

// template returns the text of the template. The function replaces the tokens.
func (o *object) template(replaceTokens func(string) string) (string, error) {
	quoteMarkers(o.root)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(o.root); err != nil {
		return "", err
	}
	text := strings.ReplaceAll(out.String(), "{{", `{{ "{{" }}`)
	text = lineMarker.ReplaceAllStringFunc(text, func(match string) string {
		groups := lineMarker.FindStringSubmatch(match)
		return o.text(groups[2], groups[1])
	})
	text = scalarMarker.ReplaceAllStringFunc(text, func(match string) string {
		return o.text(scalarMarker.FindStringSubmatch(match)[1], "")
	})
	return replaceTokens(text), nil
}

func (o *object) text(number, indent string) string {
	i, _ := strconv.Atoi(number) // it consists of digits
	return o.texts[i](indent)
}

// quoteMarkers quotes scalars with markers and tokens, because a name such as 1 is a string.
func quoteMarkers(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && (strings.Contains(n.Value, nameToken) || strings.Contains(n.Value, namespaceToken) ||
		scalarMarker.MatchString(n.Value)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteMarkers(child)
	}
}
