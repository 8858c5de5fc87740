package endpoints

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/managedfields"
)

// Limits on the cost of a patch beyond the sizes of the patch and the object. Within these limits a patch takes a
// second or two.
const (
	// maxMoved is how many list elements the operations of a JSON patch may move. Each operation that inserts or
	// removes an element copies the list. k8s.io/apiserver allows 10,000 operations, so the limit permits lists of
	// 13,000 elements.
	maxMoved = 1 << 27
	// maxMerged is the maximum length of a list together with the elements that a strategic merge patch has for it. A
	// merge compares each element with every other, so the limit for the pairs of all lists is the square.
	maxMerged = 5000
	maxPairs  = maxMerged * maxMerged
	// maxApplied is the maximum number of fields in one map of an applied configuration. The field manager of
	// k8s.io/apiserver inserts each field into a sorted list.
	maxApplied = 50_000
)

// checkPatchCost returns an error for a patch that would take too long to apply to an object. kind is the content type.
// checkPatchCost ignores patches that cannot be decoded, because applying them fails.
func checkPatchCost(kind types.PatchType, patch []byte, old runtime.Object) error {
	const few = 2 << 10 // a patch of fewer bytes is cheap for any object
	switch {
	case kind == types.ApplyYAMLPatchType && len(patch) > maxApplied:
		var config map[string]any
		if err := yaml.Unmarshal(patch, &config); err != nil {
			return nil
		}
		return checkApplied(config)
	case kind == types.JSONPatchType && len(patch) > few:
		return checkMoved(patch, old)
	case kind == types.StrategicMergePatchType:
		var content map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(patch, &content); err != nil || elements(content) == 0 {
			return nil
		}
		original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
		if err != nil {
			return nil
		}
		return checkPairs(original, content, old)
	}
	return nil
}

// checkApplied returns an error for a configuration with too many fields in one map.
func checkApplied(config map[string]any) error {
	if n := managedfields.ExtentOf(config).Widest; n > maxApplied {
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum of fields in one map of a configuration that is applied is %d, got %d", maxApplied, n))
	}
	return nil
}

// checkMoved returns an error for a JSON patch that moves too many elements of lists.
func checkMoved(patch []byte, old runtime.Object) error {
	var operations []struct {
		Op, Path, From string
		Value          json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil
	}
	shifting := 0
	for _, o := range operations {
		if o.Op != "replace" && o.Op != "test" && isListItem(o.Path) || o.Op == "move" && isListItem(o.From) {
			shifting++
		}
	}
	document, err := json.Marshal(old)
	if err != nil {
		return nil
	}
	longest := longestList(document)
	for _, o := range operations {
		longest = max(longest, longestList(o.Value))
	}
	longest += shifting
	if moved := shifting * longest; moved > maxMoved {
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum of list elements that a JSON patch moves is %d, got %d operations on lists of up to %d elements",
			maxMoved, shifting, longest))
	}
	return nil
}

// isListItem reports whether a path of a JSON patch may be an element of a list.
func isListItem(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	_, err := strconv.Atoi(name)
	return err == nil || name == "-"
}

// longestList returns the number of elements of the longest list in a JSON document.
func longestList(document []byte) int {
	longest, quoted := 0, false
	lengths := make([]int, 0, maxDepth) // of the open lists and objects
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			lengths = append(lengths, 1)
		case c == ',' && len(lengths) > 0:
			lengths[len(lengths)-1]++
		case (c == ']' || c == '}') && len(lengths) > 0:
			if c == ']' {
				longest = max(longest, lengths[len(lengths)-1])
			}
			lengths = lengths[:len(lengths)-1]
		}
	}
	return longest
}

// elements returns the number of elements of all lists in a JSON value.
func elements(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			n += elements(inner)
		}
	case []any:
		n = len(v)
		for _, inner := range v {
			n += elements(inner)
		}
	}
	return n
}

// checkPairs returns an error for a strategic merge patch that compares too many list elements. schema is an object of
// the Go type.
func checkPairs(original, patch map[string]any, schema runtime.Object) error {
	if inPatch := elements(patch); inPatch == 0 || elements(original)+inPatch <= maxMerged {
		return nil
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(schema)
	if err != nil {
		return nil
	}
	var p pairs
	p.ofMap(original, patch, meta, nil)
	if p.count > maxPairs {
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum of list elements that a strategic merge patch compares with each other is %d, got %d at %s: "+
				"use a JSON merge patch or an apply", maxMerged, p.longest, strings.Join(p.path, ".")))
	}
	return nil
}

// pairs counts the pairs of elements that a strategic merge patch compares.
type pairs struct {
	count, longest int
	path           []string // of the longest list
}

// Directives of strategic merge patches that are fields next to a list.
const (
	setElementOrder         = "$setElementOrder/"
	deleteFromPrimitiveList = "$deleteFromPrimitiveList/"
)

// ofMap adds the comparisons for merging a patch into an object.
func (p *pairs) ofMap(original, patch map[string]any, schema strategicpatch.LookupPatchMeta, path []string) {
	for name, value := range patch {
		key := strings.TrimPrefix(strings.TrimPrefix(name, setElementOrder), deleteFromPrimitiveList)
		at := append(slices.Clip(path), key)
		switch value := value.(type) {
		case map[string]any:
			before, ok := original[key].(map[string]any)
			if inner, _, err := schema.LookupPatchMetadataForStruct(key); ok && err == nil {
				p.ofMap(before, value, inner, at)
			}
		case []any:
			before, ok := original[key].([]any)
			if inner, meta, err := schema.LookupPatchMetadataForSlice(key); (ok || key != name) && err == nil &&
				slices.Contains(meta.GetPatchStrategies(), "merge") {
				p.ofList(before, value, inner, meta.GetPatchMergeKey(), at)
			}
		}
	}
}

// ofList adds the comparisons for merging a list: every pair of elements, and the values of elements with the same key.
func (p *pairs) ofList(original, patch []any, schema strategicpatch.LookupPatchMeta, mergeKey string, path []string) {
	n := len(original) + len(patch)
	p.count += n * n
	if n > p.longest {
		p.longest, p.path = n, path
	}
	if mergeKey == "" || p.count > maxPairs {
		return
	}
	byKey := make(map[any]map[string]any, len(original))
	for _, item := range original {
		if item, ok := item.(map[string]any); ok && isKey(item[mergeKey]) {
			byKey[item[mergeKey]] = item
		}
	}
	for _, item := range patch {
		if item, ok := item.(map[string]any); ok && isKey(item[mergeKey]) {
			p.ofMap(byKey[item[mergeKey]], item, schema, path)
		}
	}
}

// isKey reports whether a JSON value can be the key of an element.
func isKey(v any) bool {
	switch v.(type) {
	case string, int64, float64:
		return true
	}
	return false
}
