package endpoints

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	utilyaml "sigs.k8s.io/yaml"
)

// shape describes a YAML document as the decoders see it, with each alias replaced by a copy of its target.
type shape struct {
	depth   int
	size    int64 // about the bytes of its JSON
	aliases bool
}

// yamlShape returns the shape of a document. It does not expand aliases: the parser makes a graph of the document in
// which an alias is an edge. The decoders' own limit does not bound the number of bytes: 400,000 values may be copied
// (decode.go of go.yaml.in/yaml/v2, allowedAliasRatio), and each may be a long string.
//
// Neither brackets nor indentation show how deep YAML is. A document without aliases that could be too deep is
// therefore converted to JSON, as the decoders do. Its shape has only the depth: 0, or maxDepth+1.
func yamlShape(data []byte) (shape, error) {
	if json.Valid(data) {
		return shapeOfJSON(data), nil
	}
	if !bytes.ContainsRune(data, '&') || !bytes.ContainsRune(data, '*') {
		levels := 0
		for _, opening := range []string{"{", "[", ":", "-", "?"} {
			levels += bytes.Count(data, []byte(opening))
		}
		if levels <= maxDepth {
			return shape{}, nil
		}
		converted, err := utilyaml.YAMLToJSON(data)
		if err != nil {
			return shape{}, nil // the decoder reports it
		}
		return shapeOfJSON(converted), nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return shape{}, err
	}
	s, err := measurer{}.measure(&document)
	s.depth-- // the document node
	return s, err
}

func shapeOfJSON(data []byte) shape {
	if jsonTooDeep(data) {
		return shape{depth: maxDepth + 1}
	}
	return shape{}
}

// measurer measures the nodes of a document. It measures nodes with anchors once.
type measurer map[*yaml.Node]*shape

// measure returns the shape of a node. It fails for an alias that refers to an enclosing node; the decoders refuse such
// an alias as well.
func (m measurer) measure(n *yaml.Node) (shape, error) {
	if n.Kind == yaml.AliasNode {
		known, ok := m[n.Alias]
		if !ok {
			return shape{}, fmt.Errorf("unknown anchor '%s' referenced", n.Value)
		}
		if known == nil {
			return shape{}, fmt.Errorf("anchor '%s' value contains itself", n.Value)
		}
		s := *known
		s.aliases = true
		return s, nil
	}
	if n.Anchor != "" {
		m[n] = nil // until it is known
	}
	const separators = 3 // two quotes and a comma; of a number or a list, fewer
	s := shape{size: int64(len(n.Value)) + separators}
	for _, child := range n.Content {
		inner, err := m.measure(child)
		if err != nil {
			return shape{}, err
		}
		s.size += inner.size
		s.depth = max(s.depth, inner.depth)
		s.aliases = s.aliases || inner.aliases
	}
	if n.Kind != yaml.ScalarNode {
		s.depth++
	}
	if n.Anchor != "" {
		m[n] = &s
	}
	return s, nil
}
