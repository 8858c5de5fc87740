package crd

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/internal/packed"
)

// schemaText is the schema of one version as compressed JSON of apiextensions.k8s.io/v1. Equal schemas have equal texts, and the text of
// a version without a schema is empty. A definition keeps its schemas as texts, because a tree takes a hundred times the memory.
type schemaText packed.Text

// schemaTextOf returns the text of a schema; props may be nil.
func schemaTextOf(props *apiextensions.JSONSchemaProps) (schemaText, error) {
	if props == nil {
		return "", nil
	}
	out := &v1.JSONSchemaProps{}
	if err := v1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(props, out, nil); err != nil {
		return "", err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", err
	}
	return schemaText(packed.Pack(text)), nil
}

// schemaTextsOf returns the texts of the schemas of a definition by version.
//
//upstream:none apiextensions-apiserver keeps the trees.
func schemaTextsOf(crd *apiextensions.CustomResourceDefinition) (map[string]schemaText, error) {
	texts := make(map[string]schemaText, len(crd.Spec.Versions))
	for _, v := range crd.Spec.Versions {
		props, err := schemaIn(crd, v.Name)
		if err != nil {
			return nil, err
		}
		text, err := schemaTextOf(props)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
		texts[v.Name] = text
	}
	return texts, nil
}

// schemaIn returns the schema of a version, or nil if the version has none.
func schemaIn(crd *apiextensions.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, error) {
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil || validation == nil {
		return nil, err
	}
	return validation.OpenAPIV3Schema, nil
}

// external returns the schema in version v1, or nil.
func (t schemaText) external() (*v1.JSONSchemaProps, error) {
	if t == "" {
		return nil, nil
	}
	out := &v1.JSONSchemaProps{}
	return out, utiljson.Unmarshal(packed.Text(t).Unpack(), out)
}

// internal returns the schema in the internal version, or nil.
func (t schemaText) internal() (*apiextensions.JSONSchemaProps, error) {
	props, err := t.external()
	if props == nil || err != nil {
		return nil, err
	}
	out := &apiextensions.JSONSchemaProps{}
	return out, v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, out, nil)
}

// structural returns the structural schema without the parts that only documents need, or nil.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func (t schemaText) structural() (*structural.Structural, error) {
	props, err := t.internal()
	if props == nil || err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(props)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(s); err != nil {
		return nil, fmt.Errorf("defaults: %w", err)
	}
	(&structural.Visitor{Structural: trim}).Visit(s)
	return s, nil
}

// trim removes descriptions from a schema, and makes validations that are empty the same. It reports whether the schema had any.
func trim(s *structural.Structural) bool {
	described := s.Description != "" || s.Title != "" || s.ExternalDocs != nil || s.Example.Object != nil
	s.Description, s.Title, s.ExternalDocs, s.Example = "", "", nil, structural.JSON{}
	empty := s.ValueValidation != nil && reflect.ValueOf(*s.ValueValidation).IsZero()
	if empty {
		s.ValueValidation = noValidation
	}
	return described || empty
}

// noValidation is the validation of most schemas.
var noValidation = &structural.ValueValidation{}
