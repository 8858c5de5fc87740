package listtest

import (
	"bytes"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
)

// Flipping is a transformer of all resources that flips bits.
type Flipping struct{}

// TransformerForResource implements [value.ResourceTransformers].
func (f Flipping) TransformerForResource(schema.GroupResource) value.Transformer { return f }

// TransformToStorage implements [value.Transformer].
func (Flipping) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	flipped := []byte(flippedPrefix)
	for _, b := range data {
		flipped = append(flipped, ^b)
	}
	return flipped, nil
}

// TransformFromStorage implements [value.Transformer].
func (f Flipping) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	flipped, ok := bytes.CutPrefix(data, []byte(flippedPrefix))
	if !ok {
		return nil, false, errors.New("it is not flipped")
	}
	data = make([]byte, len(flipped))
	for i, b := range flipped {
		data[i] = ^b
	}
	return data, false, nil
}

const flippedPrefix = "flipped "
