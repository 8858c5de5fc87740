package managedfields

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"flyball.dev/apiserver/schema"
)

// apply sets the managed fields of obj, the result of merging a configuration into live. configured has the fields of
// the configuration. apply returns false in three cases: other managers own some of the fields with other values, and
// force is false; the manager has left out fields that it applied before; or [Updater.Update] does not support the
// write either.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.FieldManager.Apply
//upstream:sigs.k8s.io/structured-merge-diff/v6/merge.Updater.Apply
func (u *updates) apply(ctx context.Context, live, obj metav1.Object, configured *fieldpath.Set, w Write, force bool) bool {
	list := entriesOf(live)
	entries := list.entries
	sets, ok := u.sets(entries)
	if !ok || live.GetUID() == "" {
		return false
	}
	difference, err := u.compare(live, obj)
	if err != nil || ctx.Err() != nil || !difference.Removed.Empty() {
		return false
	}
	changed := !difference.IsSame()
	if u.filter != nil {
		difference = difference.FilterFields(u.filter)
		configured = u.filter.Filter(configured)
	}
	written := union(difference.Modified, difference.Added)
	owned := owned(configured)
	owner := w.owner(u.apiVersion, nil)
	if !changed {
		owner.Time = nil
	}
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries)+1)
	for i, entry := range entries {
		if sameManager(&entry, &owner) {
			if !includes(configured, sets[i]) {
				return false
			}
			if includes(sets[i], owned) {
				owner.FieldsV1 = entry.FieldsV1
			}
			if !changed {
				owner.Time = entry.Time
			}
			continue
		}
		if left := sets[i]; overlap(left, written) {
			left = left.Difference(written)
			if !force || !u.encode(&entry, left) {
				return false
			}
			if left.Empty() {
				continue
			}
		}
		out = append(out, entry)
	}
	if !owned.Empty() {
		if owner.FieldsV1.GetRawString() == "" && !u.encode(&owner, owned) {
			return false
		}
		out = append(out, owner)
	}
	slices.SortFunc(out, compareEntries)
	if len(out) == 0 {
		out = nil
	}
	list.set(obj, out)
	return true
}

// Apply implements [Updater].
func (u *typedUpdater) Apply(ctx context.Context, live metav1.Object, config map[string]any, w Write, force bool) (metav1.Object, bool) {
	root := u.root()
	if root == nil || u.filter != nil || !appliesTo(live, config) {
		return nil, false
	}
	fields := make(map[string]any, len(config))
	for name, value := range config {
		switch {
		case name == "apiVersion" || name == "kind":
		case slices.Contains(u.skip, name):
			return nil, false
		case name == "metadata":
			fields[name] = ownMetadata(value)
		default:
			fields[name] = value
		}
	}
	if len(fields) == 0 {
		return nil, false
	}
	configuration, err := schema.Mergeable(u.typ).FromUnstructured(config)
	if err != nil {
		return nil, false
	}
	configured, err := configuration.ToFieldSet()
	if err != nil || ctx.Err() != nil {
		return nil, false
	}
	v := reflect.ValueOf(live)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != u.typ {
		return nil, false
	}
	obj := copyOf(live)
	if !root.merge(ctx, reflect.ValueOf(obj).Elem(), fields) || !u.apply(ctx, live, obj, configured, w, force) {
		return nil, false
	}
	return obj, true
}

// appliesTo reports whether a configuration is for the live object, and sets no fields that belong to the server.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.structuredMergeManager.Apply
func appliesTo(live metav1.Object, config map[string]any) bool {
	metadata, ok := config["metadata"].(map[string]any)
	if !ok || metadata["name"] != live.GetName() || live.GetName() == "" {
		return false
	}
	for _, name := range serverMetadata {
		value, ok := metadata[name]
		if ok && name != "name" && (name != "namespace" || value != live.GetNamespace()) {
			return false
		}
	}
	return true
}

// ownMetadata returns the metadata of a configuration without the fields that have no manager.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.stripMetaManager
func ownMetadata(metadata any) map[string]any {
	own := map[string]any{}
	for name, value := range metadata.(map[string]any) {
		if !slices.Contains(serverMetadata, name) {
			own[name] = value
		}
	}
	return own
}

// merge merges a configuration into a value. It returns false for configurations that it cannot merge in the same way
// as structured-merge-diff: nulls, empty values, values that encoding would change, and list elements that are new in a
// non-empty list or in another order. It also returns false if ctx ends.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.mergingWalker
func (m *mergeType) merge(ctx context.Context, x reflect.Value, config any) bool {
	if m.granularity == atomic {
		return setExactly(x, config)
	}
	if x.Kind() == reflect.Pointer {
		if x.IsNil() {
			x.Set(reflect.New(x.Type().Elem()))
		}
		x = x.Elem()
	}
	switch config := config.(type) {
	case map[string]any:
		switch m.granularity {
		case granularStruct:
			return m.mergeFields(ctx, x, config)
		case granularMap:
			return m.mergeEntries(ctx, x, config)
		}
	case []any:
		return (m.granularity == listSet || m.granularity == listMap) && m.mergeElements(ctx, x, config)
	}
	return false
}

func (m *mergeType) mergeFields(ctx context.Context, x reflect.Value, config map[string]any) bool {
	for name, value := range config {
		i, ok := slices.BinarySearchFunc(m.fields, name, func(f *structField, name string) int {
			switch {
			case f.JsonName < name:
				return -1
			case f.JsonName > name:
				return 1
			}
			return 0
		})
		if !ok {
			return false
		}
		field := m.fields[i]
		v := field.GetFrom(x)
		if !v.CanSet() || !field.typ.merge(ctx, v, value) || field.CanOmit(v) {
			return false
		}
	}
	return true
}

func (m *mergeType) mergeEntries(ctx context.Context, x reflect.Value, config map[string]any) bool {
	if len(config) == 0 || x.Type().Key().Kind() != reflect.String {
		return false
	}
	if x.IsNil() {
		x.Set(reflect.MakeMap(x.Type()))
	}
	for name, value := range config {
		key := reflect.ValueOf(name).Convert(x.Type().Key())
		element := reflect.New(x.Type().Elem()).Elem()
		if old := x.MapIndex(key); old.IsValid() {
			element.Set(old)
		}
		if !m.element.merge(ctx, element, value) {
			return false
		}
		x.SetMapIndex(key, element)
	}
	return true
}

// mergeElements merges the elements of a configuration in one pass. The elements must be in the order of the list.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/typed.mergingWalker.visitListItems
func (m *mergeType) mergeElements(ctx context.Context, x reflect.Value, config []any) bool {
	if len(config) == 0 {
		return false
	}
	if x.Len() == 0 {
		x.Set(reflect.MakeSlice(x.Type(), len(config), len(config)))
		for i, value := range config {
			if !m.element.merge(ctx, x.Index(i), value) {
				return false
			}
		}
		return true
	}
	var w writer
	if _, distinct := w.order(m, x); !distinct || w.failed {
		return false
	}
	i := 0
	for _, value := range config {
		for i < x.Len() && ctx.Err() == nil && !m.matches(x.Index(i), value) {
			i++
		}
		if i == x.Len() || ctx.Err() != nil || m.granularity == listMap && !m.element.merge(ctx, x.Index(i), value) {
			return false
		}
		i++
	}
	return true
}

func (m *mergeType) matches(element reflect.Value, config any) bool {
	if m.granularity == listSet {
		return isScalar(element, config)
	}
	fields, ok := config.(map[string]any)
	if !ok {
		return false
	}
	var w writer
	for _, key := range m.keys {
		v := w.keyValue(key, element)
		value, ok := fields[key.JsonName]
		switch {
		case w.failed:
			return false
		case ok && !isScalar(v, value):
			return false
		case !ok && (!key.fallback.IsValid() || compareScalars(v, key.fallback) != 0):
			return false
		}
	}
	return true
}

// isScalar reports whether a Go value is the string or integer of a configuration.
func isScalar(v reflect.Value, config any) bool {
	switch config := config.(type) {
	case string:
		return v.Kind() == reflect.String && v.String() == config
	case int64:
		return v.CanInt() && v.Int() == config
	}
	return false
}

// setExactly sets an atomic value, if encoding the value gives the configured one.
func setExactly(x reflect.Value, config any) bool {
	if text, ok := config.(string); ok && x.Kind() == reflect.String && x.Type().NumMethod() == 0 {
		x.SetString(text)
		return true
	}
	data, err := json.Marshal(config)
	if err != nil || config == nil {
		return false
	}
	v := reflect.New(x.Type())
	if strict, err := kjson.UnmarshalStrict(data, v.Interface()); err != nil || len(strict) > 0 {
		return false
	}
	again, err := json.Marshal(v.Interface())
	if err != nil {
		return false
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(again, &value); err != nil || !EqualJSON(value, config) {
		return false
	}
	x.Set(v.Elem())
	return true
}

// Apply implements [Updater].
func (c *unstructuredUpdater) Apply(ctx context.Context, live metav1.Object, config map[string]any, w Write, force bool) (metav1.Object, bool) {
	u, ok := live.(*unstructured.Unstructured)
	if !ok || !appliesTo(live, config) {
		return nil, false
	}
	configuration, err := c.types.ObjectToTyped(&unstructured.Unstructured{Object: config})
	if err != nil {
		return nil, false
	}
	configured, err := configuration.ToFieldSet()
	if err != nil || ctx.Err() != nil {
		return nil, false
	}
	obj, ok := c.merged(u, config, configuration)
	if !ok || ctx.Err() != nil || !c.apply(ctx, live, obj, configured, w, force) {
		return nil, false
	}
	return obj, true
}

// merged returns an object with a configuration merged into it. The result shares parts with both, but has its own
// metadata map.
func (c *unstructuredUpdater) merged(live *unstructured.Unstructured, config map[string]any,
	typedConfig *typed.TypedValue) (*unstructured.Unstructured, bool) {
	if content, ok := (jsonMerger{typedConfig.Schema()}).mergeObject(typedConfig.TypeRef(), live.Object, config); ok {
		return &unstructured.Unstructured{Object: content}, true
	}
	before, err := c.types.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, false
	}
	merged, err := before.Merge(typedConfig)
	if err != nil {
		return nil, false
	}
	after, err := c.types.TypedToObject(merged)
	if err != nil {
		return nil, false
	}
	obj, ok := after.(*unstructured.Unstructured)
	if !ok {
		return nil, false
	}
	metadata, ok := obj.Object["metadata"].(map[string]any)
	obj.Object["metadata"] = maps.Clone(metadata)
	return obj, ok
}
