package crd

import (
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/s2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// schemaText is the schema of one version as compressed JSON of apiextensions.k8s.io/v1. Equal schemas have equal texts, and the text of
// a version without a schema is empty. A definition keeps its schemas as texts, because a tree takes a hundred times the memory.
type schemaText string

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
	return schemaText(s2.EncodeBetter(nil, text)), nil
}

// schemaTextsOf returns the texts of the schemas of a definition by version.
func schemaTextsOf(crd *apiextensions.CustomResourceDefinition) (map[string]schemaText, error) {
	texts := make(map[string]schemaText, len(crd.Spec.Versions))
	for _, v := range crd.Spec.Versions {
		text, err := schemaTextOf(schemaIn(crd, v.Name))
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
		texts[v.Name] = text
	}
	return texts, nil
}

// schemaIn returns the schema of a version, or nil if the version has none.
func schemaIn(crd *apiextensions.CustomResourceDefinition, version string) *apiextensions.JSONSchemaProps {
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil || validation == nil {
		return nil
	}
	return validation.OpenAPIV3Schema
}

// external returns the schema in version v1, or nil.
func (t schemaText) external() (*v1.JSONSchemaProps, error) {
	if t == "" {
		return nil, nil
	}
	text, err := s2.Decode(nil, []byte(t))
	if err != nil {
		return nil, err
	}
	out := &v1.JSONSchemaProps{}
	return out, utiljson.Unmarshal(text, out)
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

// structural returns the structural schema without descriptions, or nil.
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
	(&structural.Visitor{Structural: func(s *structural.Structural) bool {
		described := s.Description != "" || s.Title != "" || s.ExternalDocs != nil || s.Example.Object != nil
		s.Description, s.Title, s.ExternalDocs, s.Example = "", "", nil, structural.JSON{}
		return described
	}}).Visit(s)
	return s, nil
}
