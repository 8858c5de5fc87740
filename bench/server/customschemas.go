package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/apiserver/schema"
)

// parts are the types that the specs of custom kinds are made of, as in real definitions, with a
// name for the field.
var parts = []struct {
	name string
	of   reflect.Type
}{
	{"selector", reflect.TypeFor[metav1.LabelSelector]()},
	{"resources", reflect.TypeFor[corev1.ResourceRequirements]()},
	{"service", reflect.TypeFor[corev1.ServiceSpec]()},
	{"tolerations", reflect.TypeFor[[]corev1.Toleration]()},
	{"env", reflect.TypeFor[[]corev1.EnvVar]()},
	{"affinity", reflect.TypeFor[corev1.Affinity]()},
	{"claim", reflect.TypeFor[corev1.PersistentVolumeClaimSpec]()},
	{"securityContext", reflect.TypeFor[corev1.PodSecurityContext]()},
	{"readiness", reflect.TypeFor[corev1.Probe]()},
	{"ingress", reflect.TypeFor[networkingv1.IngressSpec]()},
	{"autoscaling", reflect.TypeFor[autoscalingv2.HorizontalPodAutoscalerSpec]()},
	{"volumeMounts", reflect.TypeFor[[]corev1.VolumeMount]()},
	{"spread", reflect.TypeFor[[]corev1.TopologySpreadConstraint]()},
	{"network", reflect.TypeFor[networkingv1.NetworkPolicySpec]()},
	{"disruption", reflect.TypeFor[policyv1.PodDisruptionBudgetSpec]()},
	{"container", reflect.TypeFor[corev1.Container]()},
	{"failurePolicy", reflect.TypeFor[batchv1.PodFailurePolicy]()},
	{"volumes", reflect.TypeFor[[]corev1.Volume]()},
	{"storage", reflect.TypeFor[storagev1.VolumeAttachmentSpec]()},
	{"references", reflect.TypeFor[[]corev1.ObjectReference]()},
}

// customDefinition returns the nth definition of a kind with a large schema: 20 to 100 KB, half of them
// with rules, and every fifth with two versions.
func customDefinition(n int) (*unstructured.Unstructured, error) {
	spec := map[string]any{
		"replicas": map[string]any{"type": "integer", "format": "int32", "default": int64(1), "minimum": int64(0)},
		"limit":    map[string]any{"type": "integer", "format": "int32"},
		"class":    map[string]any{"type": "string", "maxLength": int64(63), "pattern": "^[a-z0-9-]*$"},
	}
	size := 0
	for i := n; size < (20+n*37%81)<<10; i++ {
		part := parts[i%len(parts)]
		if i-n >= len(parts) {
			part.name += fmt.Sprint((i - n) / len(parts))
		}
		s, err := inline(part.of)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		size += len(text)
		spec[part.name] = s
	}
	specSchema := map[string]any{"type": "object", "properties": spec}
	if n%2 == 0 {
		specSchema["x-kubernetes-validations"] = []any{
			map[string]any{"rule": "!has(self.limit) || self.replicas <= self.limit", "message": "replicas exceeds limit"},
			map[string]any{"rule": "!has(oldSelf.class) || has(self.class) && self.class == oldSelf.class", "message": "class is immutable"},
		}
	}
	conditions, err := inline(reflect.TypeFor[[]metav1.Condition]())
	if err != nil {
		return nil, err
	}
	root := map[string]any{"type": "object", "properties": map[string]any{
		"spec":   specSchema,
		"status": map[string]any{"type": "object", "properties": map[string]any{"conditions": conditions}},
	}}
	name := fmt.Sprintf("gadget%d", n)
	versions := []any{customVersion("v1", true, root)}
	if n%5 == 0 {
		versions = append(versions, customVersion("v1beta1", false, root))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name + "s." + customGroup(n)},
		"spec": map[string]any{
			"group": customGroup(n), "scope": "Namespaced",
			"names":    map[string]any{"plural": name + "s", "kind": "G" + name[1:]},
			"versions": versions,
		},
	}}, nil
}

func customVersion(name string, stored bool, schema map[string]any) map[string]any {
	return map[string]any{
		"name": name, "served": true, "storage": stored,
		"schema":       map[string]any{"openAPIV3Schema": schema},
		"subresources": map[string]any{"status": map[string]any{}},
		"additionalPrinterColumns": []any{
			map[string]any{"name": "Class", "type": "string", "jsonPath": ".spec.class"},
		},
	}
}

// customGroup returns the group of the nth kind. Five kinds share one.
func customGroup(n int) string { return fmt.Sprintf("g%d.example.org", n/5) }

// inline returns the schema of a Go type as controller-gen writes it, without references.
func inline(t reflect.Type) (map[string]any, error) {
	if t.Kind() == reflect.Slice {
		items, err := inline(t.Elem())
		return map[string]any{"type": "array", "items": items}, err
	}
	models := map[string]map[string]any{}
	for _, d := range schema.Of(t).Closure() {
		text, err := json.Marshal(d.V2())
		if err != nil {
			return nil, err
		}
		model := map[string]any{}
		if err := json.Unmarshal(text, &model); err != nil {
			return nil, err
		}
		models["#/definitions/"+d.Name] = model
	}
	return structural(models["#/definitions/"+schema.Of(t).Name], models), nil
}

// structural returns a copy of a schema that a definition may have.
func structural(s map[string]any, models map[string]map[string]any) map[string]any {
	if reference, ok := s["$ref"].(string); ok {
		out := structural(models[reference], models)
		if text, ok := s["description"]; ok {
			out["description"] = text
		}
		return out
	}
	out := map[string]any{}
	for _, keyword := range []string{"type", "description", "format", "x-kubernetes-map-type"} {
		if value, ok := s[keyword]; ok {
			out[keyword] = value
		}
	}
	if required, ok := s["required"].([]any); ok && len(required) > 0 {
		out["required"] = required
	}
	if isQuantity := strings.Contains(fmt.Sprint(s["description"]), "suffix"); s["format"] == "int-or-string" || isQuantity {
		delete(out, "type")
		delete(out, "format")
		out["x-kubernetes-int-or-string"] = true
		out["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		return out
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		copied := map[string]any{}
		for name, property := range properties {
			copied[name] = structural(property.(map[string]any), models)
		}
		out["properties"] = copied
	} else if values, ok := s["additionalProperties"].(map[string]any); ok {
		out["additionalProperties"] = structural(values, models)
	} else if s["type"] == "object" {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	if items, ok := s["items"].(map[string]any); ok {
		out["items"] = structural(items, models)
		addListType(out, s)
	}
	return out
}

// addListType makes an array a map of its items if these have all keys.
func addListType(out, s map[string]any) {
	keys, isMap := s["x-kubernetes-list-map-keys"].([]any)
	if !isMap {
		out["x-kubernetes-list-type"] = "atomic"
		return
	}
	required, _ := out["items"].(map[string]any)["required"].([]any)
	for _, key := range keys {
		if !slices.Contains(required, key) {
			out["x-kubernetes-list-type"] = "atomic"
			return
		}
	}
	out["x-kubernetes-list-type"], out["x-kubernetes-list-map-keys"] = "map", keys
}
