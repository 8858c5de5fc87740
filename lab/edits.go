package lab

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
)

// edits returns the changes of the custom resources in the clean run: each field of the spec to each telling value of its
// schema, at the first rest at which the object exists.
func (e *explorer) edits() (all []Choice) {
	objects, seen, rest := map[string]*unstructured.Unstructured{}, map[string]bool{}, 0
	look := func() {
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			o := objects[key]
			spec, properties := o.Object["spec"], e.schemaOf(o)
			if seen[key] || spec == nil || properties == nil || o.GetDeletionTimestamp() != nil {
				continue
			}
			seen[key] = true
			for _, patch := range variations(properties, spec) {
				content, err := json.Marshal(map[string]any{"spec": patch})
				if err == nil {
					all = append(all, Choice{Do: Change, At: Point{Action: atRest, N: rest}, Object: describeCanonical(o), Patch: content})
				}
			}
		}
	}
	for _, ev := range e.known.trace {
		if ev.action == nil && strings.HasPrefix(ev.text, stepPrefix) {
			look()
			rest++
		}
		for _, c := range ev.changes {
			_, known := objects[c.key]
			if ev.action != nil && !known {
				continue // not an object of a user
			}
			if object, err := decode(c.after); c.after != nil && err == nil {
				objects[c.key] = &unstructured.Unstructured{Object: object}
			} else {
				delete(objects, c.key)
			}
		}
	}
	look()
	return all
}

// describeCanonical returns the name under which choices know an object.
func describeCanonical(o *unstructured.Unstructured) string {
	return kindOf(o) + " " + o.GetNamespace() + "/" + o.GetName()
}

// schemaOf returns the schema of the spec of a custom resource, or nil.
func (e *explorer) schemaOf(o *unstructured.Unstructured) *apiextensionsv1.JSONSchemaProps {
	kind := o.GroupVersionKind()
	for _, definition := range e.definitions {
		if definition.Spec.Group != kind.Group || definition.Spec.Names.Kind != kind.Kind {
			continue
		}
		for _, v := range definition.Spec.Versions {
			if v.Name == kind.Version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
				if spec, ok := v.Schema.OpenAPIV3Schema.Properties["spec"]; ok {
					return &spec
				}
			}
		}
	}
	return nil
}

// far is how far a bound of a number may be from its value: a replica is a pod.
const far = 10

// longest is the length of the longest string that an edit sets.
const longest = 1024

// variations returns other values for a field with a schema and a value. A variation of an object is a JSON merge patch.
func variations(schema *apiextensionsv1.JSONSchemaProps, value any) (all []any) {
	if len(schema.Enum) > 0 {
		for _, v := range schema.Enum {
			var other any
			if utiljson.Unmarshal(v.Raw, &other) == nil && !reflect.DeepEqual(other, value) {
				all = append(all, other)
			}
		}
		return all
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			property, element := schema.Properties[name], v[name]
			for _, other := range variations(&property, element) {
				all = append(all, map[string]any{name: other})
			}
			if element != nil && !slices.Contains(schema.Required, name) {
				all = append(all, map[string]any{name: nil})
			}
		}
	case []any:
		all = sublists(schema, v)
	case bool:
		all = append(all, !v)
	case int64:
		for _, n := range numbers(schema, float64(v)) {
			all = append(all, int64(n))
		}
	case float64:
		for _, n := range numbers(schema, v) {
			all = append(all, n)
		}
	case string:
		all = texts(schema, v)
	case nil:
		all = defaults(schema)
	}
	return all
}

// sublists returns the list without its last element, and without any.
func sublists(schema *apiextensionsv1.JSONSchemaProps, list []any) (all []any) {
	least := 0
	if schema.MinItems != nil {
		least = int(*schema.MinItems)
	}
	if len(list) > 1 && len(list)-1 >= least {
		all = append(all, list[:len(list)-1])
	}
	if len(list) > 0 && least == 0 {
		all = append(all, []any{})
	}
	return all
}

// numbers returns the bounds of a number, unless they are far from its value, and the next number.
func numbers(schema *apiextensionsv1.JSONSchemaProps, value float64) (all []float64) {
	least, most := 0.0, math.Inf(1)
	if schema.Minimum != nil {
		if least = *schema.Minimum; schema.ExclusiveMinimum {
			least++
		}
	}
	if schema.Maximum != nil {
		if most = *schema.Maximum; schema.ExclusiveMaximum {
			most--
		}
	}
	for _, n := range []float64{least, value + 1, most} {
		if n != value && n >= least && n <= most && math.Abs(n-value) <= far && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// texts returns the empty string, a longer one and the longest one. What has a pattern or a format has none of them.
func texts(schema *apiextensionsv1.JSONSchemaProps, value string) (all []any) {
	if schema.Pattern != "" || schema.Format != "" {
		return nil
	}
	if value != "" && (schema.MinLength == nil || *schema.MinLength == 0) {
		all = append(all, "")
	}
	most := int64(longest)
	if schema.MaxLength != nil {
		most = *schema.MaxLength
	}
	if int64(len(value)) < most {
		all = append(all, value+"x")
	}
	if schema.MaxLength != nil && most <= longest && int64(len(value))+1 < most {
		all = append(all, value+strings.Repeat("x", int(most)-len(value)))
	}
	return all
}

// defaults returns values for a field that is absent: the bounds of integers, both of a boolean, and one value otherwise.
func defaults(schema *apiextensionsv1.JSONSchemaProps) (all []any) {
	switch schema.Type {
	case "boolean":
		return []any{true, false}
	case "integer":
		for _, n := range numbers(schema, 0) {
			all = append(all, int64(n))
		}
		return all
	}
	if value, ok := example(schema); ok {
		return []any{value}
	}
	return nil
}

// example returns a small value of a schema that is not empty, unless the schema does not show one: patterns, formats and objects of any
// content do not.
func example(schema *apiextensionsv1.JSONSchemaProps) (value any, ok bool) {
	if len(schema.Enum) > 0 {
		return value, utiljson.Unmarshal(schema.Enum[0].Raw, &value) == nil
	}
	switch schema.Type {
	case "boolean":
		return true, true
	case "integer", "number":
		all := numbers(schema, 0)
		if len(all) == 0 {
			return nil, false
		}
		return json.Number(strconv.FormatFloat(all[0], 'f', -1, 64)), true
	case "string":
		length := max(1, int(ptr.Deref(schema.MinLength, 1)))
		return strings.Repeat("x", length), schema.Pattern == "" && schema.Format == "" && length <= longest
	case "array":
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil, false
		}
		element, ok := example(schema.Items.Schema)
		return []any{element}, ok && ptr.Deref(schema.MinItems, 0) <= 1
	case "object":
		return exampleObject(schema)
	}
	return nil, false
}

// exampleObject returns a map with one element, or an object with the fields that it requires and that have no default.
func exampleObject(schema *apiextensionsv1.JSONSchemaProps) (value any, ok bool) {
	if a := schema.AdditionalProperties; a != nil && a.Schema != nil {
		element, ok := example(a.Schema)
		return map[string]any{"x": element}, ok
	}
	if len(schema.Properties) == 0 || schema.XEmbeddedResource {
		return nil, false
	}
	object := map[string]any{}
	for _, name := range schema.Required {
		property := schema.Properties[name]
		if property.Default != nil {
			continue
		}
		if object[name], ok = example(&property); !ok {
			return nil, false
		}
	}
	return object, true
}

// changeAtRest begins a change, or changes the object back. The fault does not take place if the server refuses one of the
// two: a field may only grow.
func (w *world) changeAtRest(c *Choice, s *choiceState, begin bool) {
	if patch := c.Patch; begin {
		w.note(c, "a user changes %s: %s", c.Object, patch)
		back, err := w.change(c.Object, patch)
		s.back, s.missed, s.ended = back, err != nil, err != nil
		return
	}
	if w.checkFresh(c); w.finding != nil {
		return
	}
	w.note(c, "a user changes %s back: %s", c.Object, s.back)
	switch _, err := w.change(c.Object, s.back); {
	case errors.Is(err, errNothing):
		w.find(stepFailed, "%s need not be changed back: somebody else has done it", c.Object)
	case err != nil:
		s.missed = true
	}
}

// change applies a JSON merge patch to an object, and returns the patch that undoes it. It returns an error if the server refuses the
// patch, and errNothing if the object does not exist, or if the patch changes nothing.
func (w *world) change(name string, patch []byte) (back []byte, err error) {
	w.actor, w.disturbed = nil, len(w.trace)
	o, err := w.object(name)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errNothing
	}
	var wanted map[string]any
	if err := utiljson.Unmarshal(patch, &wanted); err != nil {
		return nil, err
	}
	if back, err = json.Marshal(inverse(wanted, o.Object)); err != nil {
		return nil, err
	}
	after := o.DeepCopy()
	err = w.client.Patch(context.Background(), after, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return nil, err
	case apierrors.IsNotFound(err):
		return nil, errNothing
	case err != nil:
		w.find(labFailed, "%v", err)
		return nil, err
	case after.GetResourceVersion() == o.GetResourceVersion():
		return nil, errNothing
	}
	return back, nil
}

// inverse returns the JSON merge patch that undoes another one.
func inverse(patch, object map[string]any) map[string]any {
	back := map[string]any{}
	for key, value := range patch {
		inner, isPatch := value.(map[string]any)
		old, isObject := object[key].(map[string]any)
		if isPatch && isObject {
			back[key] = inverse(inner, old)
			continue
		}
		back[key] = object[key]
	}
	return back
}
