package crd

import (
	"fmt"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/resource"
)

// shape holds the structural schemas of a custom kind by version. It prunes unstructured objects, coerces their
// metadata and sets defaults; for typed objects, decoding into a struct has these effects.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredSchemaCoercer
type shape struct {
	kind    schema.GroupKind
	schemas map[string]func() *structural.Structural
	embeds  map[string]bool // whether the version has objects inside
	// preserveUnknown disables pruning.
	preserveUnknown bool
	structures      map[string]func() *structure
}

// newShape returns the shape of the kind.
func (c *customKind) newShape() *shape {
	s := &shape{
		kind:            schema.GroupKind{Group: c.crd.Spec.Group, Kind: c.names.Kind},
		schemas:         map[string]func() *structural.Structural{},
		embeds:          map[string]bool{},
		preserveUnknown: c.preservesUnknown(),
		structures:      map[string]func() *structure{},
	}
	for version, compiled := range c.schemas.versions {
		if compiled.text == "" {
			continue
		}
		s.schemas[version], s.embeds[version] = compiled.structural, compiled.embeds
		if compiled.structure != nil && !s.preserveUnknown {
			s.structures[version] = compiled.structure
		}
	}
	return s
}

// schema returns the schema of a version, or nil.
func (s *shape) schema(version string) *structural.Structural {
	if schema := s.schemas[version]; schema != nil {
		return schema()
	}
	return nil
}

// shapeOptions are the options of [shape.apply].
type shapeOptions struct {
	// stored is for stored objects, which may be older than the validation: apply drops malformed metadata and sets a
	// missing generation.
	stored bool
	// report makes apply return the paths of pruned fields.
	report bool
}

// apply coerces the metadata of an object and of embedded objects, prunes unknown fields, and drops nulls that are not
// allowed, in place. For objects of other kinds it only coerces the metadata.
func (s *shape) apply(u *unstructured.Unstructured, o shapeOptions) (unknown []string, err error) {
	apiVersion, _, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	kind, _, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	ours := gv.Group == s.kind.Group && kind == s.kind.Kind
	if unknown, err = s.applyMetadata(u, ours, o); err != nil || !ours {
		return unknown, err
	}
	fields, err := s.applySchema(u, gv.Version, o)
	return append(unknown, fields...), err
}

func (s *shape) applyMetadata(u *unstructured.Unstructured, ours bool, o shapeOptions) (unknown []string, err error) {
	repair := ours && o.stored && u.GetGeneration() == 0
	if !repair && plainMetadata(u.Object["metadata"]) {
		return nil, nil
	}
	metadata, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields:     o.stored,
		ReturnUnknownFieldPaths: o.report,
	})
	if err != nil || !found {
		return nil, err
	}
	if repair {
		metadata.Generation = 1
	}
	return unknown, objectmeta.SetObjectMeta(u.Object, metadata)
}

// applySchema prunes an object by the schema of a version. If there are very many unknown fields, it reports only the
// first ones.
func (s *shape) applySchema(u *unstructured.Unstructured, version string,
	o shapeOptions) (unknown []string, err error) {
	if s.effects(u.Object, version)&prunes == 0 {
		return nil, nil
	}
	schema, metadata := s.schema(version), u.Object["metadata"]
	if !s.preserveUnknown {
		var many []string
		if compiled := s.structures[version]; compiled != nil && o.report {
			if paths, more := compiled().unknownFields(u.Object); more {
				many, o.report = paths, false
			}
		}
		unknown = pruning.PruneWithOptions(u.Object, schema, true,
			structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: o.report})
		unknown = append(unknown, many...)
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, schema)
	}
	if s.embeds[version] {
		fieldErr, embedded := objectmeta.CoerceWithOptions(nil, u.Object, schema, false, objectmeta.CoerceOptions{
			DropInvalidFields:       o.stored,
			ReturnUnknownFieldPaths: o.report,
		})
		if fieldErr != nil {
			return nil, fieldErr
		}
		unknown = append(unknown, embedded...)
	}
	if metadata != nil {
		u.Object["metadata"] = metadata // the schema does not apply to it
	}
	return unknown, nil
}

// normalized reports whether decoding an object of the kind in a version would leave it unchanged. It may return false
// for some objects that would not change.
func (s *shape) normalized(u *unstructured.Unstructured, kind schema.GroupVersionKind) bool {
	return u.Object["kind"] == kind.Kind && u.Object["apiVersion"] == kind.Group+"/"+kind.Version &&
		plainMetadata(u.Object["metadata"]) && s.effects(u.Object, kind.Version) == 0 && s.checkLoad(u.Object, kind.Version) == nil
}

// embeds reports whether a schema has embedded resources.
func embeds(s *structural.Structural) bool {
	if s == nil {
		return false
	}
	if s.XEmbeddedResource || embeds(s.Items) {
		return true
	}
	for _, property := range s.Properties {
		if embeds(&property) {
			return true
		}
	}
	return s.AdditionalProperties != nil && embeds(s.AdditionalProperties.Structural)
}

// Default fills in the defaults of the object's version. It implements [runtime.ObjectDefaulter].
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredDefaulter.Default
func (s *shape) Default(in runtime.Object) {
	if u, ok := in.(runtime.Unstructured); ok {
		if gvk := u.GetObjectKind().GroupVersionKind(); gvk.GroupKind() == s.kind {
			if content := u.UnstructuredContent(); s.effects(content, gvk.Version)&defaults != 0 {
				defaulting.Default(content, s.schema(gvk.Version))
			}
			return
		}
	}
	scheme().Default(in)
}

// shapingDecoder applies a shape to the objects that it decodes.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.schemaCoercingDecoder
type shapingDecoder struct {
	runtime.Decoder
	shape   *shape
	options shapeOptions
}

// Decode implements [runtime.Decoder].
func (d shapingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	var strict []error
	if err != nil {
		known, ok := runtime.AsStrictDecodingError(err)
		if !ok || obj == nil {
			return nil, gvk, err
		}
		strict = known.Errors()
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		unknown, err := d.shape.apply(u, d.options)
		if err != nil {
			return nil, gvk, err
		}
		if err := d.shape.checkLoad(u.Object, u.GroupVersionKind().Version); err != nil {
			return nil, gvk, err
		}
		for _, path := range unknown {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
	}
	if d.options.report && len(strict) > 0 {
		return obj, gvk, runtime.NewStrictDecodingError(strict)
	}
	return obj, gvk, nil
}

// reportsUnknown reports whether a decoder is strict.
func reportsUnknown(d runtime.Decoder) bool {
	s, ok := d.(resource.StrictDecoder)
	return ok && s.IsStrict()
}
