package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/internal/objectdiff"
)

const (
	maxChanges = 60
	maxValue   = 300
	// hidden stands for the data of a Secret.
	hidden = "(hidden)"
)

func isSecret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }

// isHidden reports whether the value of a field of a Secret is not shown. The annotations may have the whole object, as kubectl
// apply writes it.
func isHidden(path string) bool {
	return path == "data" || path == "stringData" || strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "data[") ||
		strings.HasPrefix(path, "stringData.") || strings.HasPrefix(path, "stringData[") || strings.HasPrefix(path, "metadata.annotations")
}

// changesOf returns the fields that a write changed, and how many more there are, or why they are not known.
func changesOf(w observe.Write) (changes []Change, more int, unknown string) {
	switch {
	case w.Err != "":
		return nil, 0, ""
	case w.DryRun:
		return nil, 0, "a dry run"
	case w.Verb == "delete" || w.Verb == "deletecollection":
		return nil, 0, ""
	case w.Large:
		return nil, 0, "the object is too large to be recorded"
	case w.Version != "" && w.Was == w.Version:
		return nil, 0, "nothing: the write changed no field"
	case w.Packed:
		return nil, 0, "the objects of an earlier reconcile are not recorded"
	case w.After == nil:
		return nil, 0, "the response is not recorded"
	case w.Verb != "create" && w.Before == nil && w.Verb != "apply":
		return nil, 0, "the object was in no cache before the write"
	}
	after := w.After.Object()
	if w.Before == nil {
		content, _ := objectdiff.Content(after)
		for _, leaf := range leaves(content) {
			changes = append(changes, Change{Field: leaf.path, After: shown(w.Type.GVK, leaf.path, leaf.value)})
		}
	} else {
		before := w.Before.Object()
		if before.GetResourceVersion() == after.GetResourceVersion() {
			return nil, 0, "nothing: the write changed no field"
		}
		for _, change := range objectdiff.Changes(before, after) {
			changes = append(changes, Change{
				Field: change.Path, Before: shown(w.Type.GVK, change.Path, change.Before), After: shown(w.Type.GVK, change.Path, change.Value),
			})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Field, b.Field) })
	if len(changes) > maxChanges {
		changes, more = changes[:maxChanges], len(changes)-maxChanges
	}
	return changes, more, ""
}

// shown is the text of a value.
func shown(gvk schema.GroupVersionKind, path string, value any) string {
	if value == nil {
		return ""
	}
	if isSecret(gvk) && isHidden(path) {
		return hidden
	}
	if isSecret(gvk) && path == "metadata" {
		return hidden // with the annotations
	}
	if s, ok := value.(string); ok {
		return clip(s, maxValue)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("(a %T)", value)
	}
	return clip(string(text), maxValue)
}

// leaf is a field with a value that has no fields.
type leaf struct {
	path  string
	value any
}

// unimportant are fields that the server sets in every object.
var unimportant = map[string]bool{
	"metadata.managedFields": true, "metadata.uid": true, "metadata.resourceVersion": true, "metadata.generation": true,
	"metadata.creationTimestamp": true, "metadata.name": true, "metadata.namespace": true, "apiVersion": true, "kind": true,
}

// leaves returns the fields of an object that have no fields below.
func leaves(content map[string]any) (all []leaf) {
	var walk func(path string, value any, depth int)
	walk = func(path string, value any, depth int) {
		if unimportant[path] || len(all) > 2000 {
			return
		}
		switch v := value.(type) {
		case map[string]any:
			if len(v) > 0 && depth < 32 {
				for key, value := range v {
					walk(joined(path, key), value, depth+1)
				}
				return
			}
		case []any:
			if len(v) > 0 && depth < 32 {
				for i, value := range v {
					walk(fmt.Sprintf("%s[%s]", path, elementName(i, value)), value, depth+1)
				}
				return
			}
		}
		all = append(all, leaf{path, value})
	}
	walk("", content, 0)
	return all
}

// joined returns the path to a field, as package objectdiff writes it.
func joined(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

func elementName(i int, value any) string {
	if m, ok := value.(map[string]any); ok {
		for _, key := range []string{"type", "name"} {
			if name, _ := m[key].(string); name != "" {
				return name
			}
		}
	}
	return fmt.Sprint(i)
}

// kindOf returns the kind of an object that the API server or the cache has returned.
func kindOf(obj client.Object) string { return kindText(obj.GetObjectKind().GroupVersionKind()) }
