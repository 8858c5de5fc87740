package crd

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plainMetadata reports whether decoding metadata into an ObjectMeta and encoding it again changes nothing: all fields
// are known, have the right type, are not empty, and are in canonical form. Nearly all metadata is plain and need not
// be decoded. plainMetadata may return false for metadata that would not change.
func plainMetadata(metadata any) bool {
	m, ok := metadata.(map[string]any)
	if !ok {
		return false
	}
	for key, v := range m {
		switch key {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			ok = plainText(v)
		case "generation":
			n, is := v.(int64)
			ok = is && n != 0
		case "deletionGracePeriodSeconds":
			_, ok = v.(int64)
		case "creationTimestamp", "deletionTimestamp":
			ok = plainTime(v)
		case "labels", "annotations":
			ok = plainTexts(v)
		case "finalizers":
			ok = plainList(v, func(item any) bool { _, is := item.(string); return is })
		case "ownerReferences":
			ok = plainList(v, plainOwner)
		case "managedFields":
			ok = plainList(v, plainManager)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

func plainText(v any) bool {
	s, ok := v.(string)
	return ok && s != ""
}

// plainTime accepts times in whole seconds of UTC.
func plainTime(v any) bool {
	s, ok := v.(string)
	if !ok || len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero()
}

func plainTexts(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return false
	}
	for _, item := range m {
		if _, ok := item.(string); !ok {
			return false
		}
	}
	return true
}

func plainList(v any, plain func(any) bool) bool {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, item := range list {
		if !plain(item) {
			return false
		}
	}
	return true
}

// plainOwner accepts owner references with the four fields without omitempty.
func plainOwner(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	always := 0
	for key, item := range m {
		switch key {
		case "apiVersion", "kind", "name", "uid":
			_, ok = item.(string)
			always++
		case "controller", "blockOwnerDeletion":
			_, ok = item.(bool)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return always == 4
}

func plainManager(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, item := range m {
		switch key {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = plainText(item)
		case "time":
			ok = plainTime(item)
		case "fieldsV1":
			ok = plainFields(item)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// plainFields accepts FieldsV1, which are maps of maps.
func plainFields(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, inner := range m {
		if !plainFields(inner) {
			return false
		}
	}
	return true
}

// decodePlainMetadata decodes plain metadata, without the field sets of the managed fields. It returns false if the
// metadata is not plain.
func decodePlainMetadata(metadata any) (*metav1.ObjectMeta, bool) {
	out, ok := decodePlainIdentity(metadata)
	if !ok {
		return nil, false
	}
	m := metadata.(map[string]any)
	out.GenerateName, out.Labels, out.Annotations = textOf(m["generateName"]), textsOf(m["labels"]), textsOf(m["annotations"])
	//lint:ignore SA1019 clients may still send a self link
	out.SelfLink = textOf(m["selfLink"])
	owners, _ := m["ownerReferences"].([]any)
	for _, owner := range owners {
		out.OwnerReferences = append(out.OwnerReferences, ownerOf(owner.(map[string]any)))
	}
	entries, _ := m["managedFields"].([]any)
	if entries != nil {
		out.ManagedFields = make([]metav1.ManagedFieldsEntry, len(entries))
	}
	for i, entry := range entries {
		out.ManagedFields[i] = managerOf(entry.(map[string]any))
	}
	return out, true
}

// decodePlainIdentity decodes the finalizers and the immutable fields of plain metadata. It returns false if the
// metadata is not plain.
func decodePlainIdentity(metadata any) (*metav1.ObjectMeta, bool) {
	if !plainMetadata(metadata) {
		return nil, false
	}
	m := metadata.(map[string]any)
	out := &metav1.ObjectMeta{Name: textOf(m["name"]), Namespace: textOf(m["namespace"]), UID: types.UID(textOf(m["uid"])),
		ResourceVersion: textOf(m["resourceVersion"]), DeletionTimestamp: timeOf(m["deletionTimestamp"])}
	out.Generation, _ = m["generation"].(int64)
	if seconds, ok := m["deletionGracePeriodSeconds"].(int64); ok {
		out.DeletionGracePeriodSeconds = &seconds
	}
	if t := timeOf(m["creationTimestamp"]); t != nil {
		out.CreationTimestamp = *t
	}
	finalizers, _ := m["finalizers"].([]any)
	for _, finalizer := range finalizers {
		out.Finalizers = append(out.Finalizers, textOf(finalizer))
	}
	return out, true
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

func textsOf(v any) map[string]string {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, item := range m {
		out[key] = textOf(item)
	}
	return out
}

func timeOf(v any) *metav1.Time {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	t, _ := time.Parse(time.RFC3339, s)
	return &metav1.Time{Time: t.Local()}
}

func ownerOf(m map[string]any) metav1.OwnerReference {
	out := metav1.OwnerReference{APIVersion: textOf(m["apiVersion"]), Kind: textOf(m["kind"]), Name: textOf(m["name"]),
		UID: types.UID(textOf(m["uid"]))}
	if b, ok := m["controller"].(bool); ok {
		out.Controller = &b
	}
	if b, ok := m["blockOwnerDeletion"].(bool); ok {
		out.BlockOwnerDeletion = &b
	}
	return out
}

func managerOf(m map[string]any) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: textOf(m["manager"]),
		Operation: metav1.ManagedFieldsOperationType(textOf(m["operation"])), APIVersion: textOf(m["apiVersion"]),
		Time: timeOf(m["time"]), FieldsType: textOf(m["fieldsType"]), Subresource: textOf(m["subresource"])}
}
