package crd

import (
	"time"
)

// plainMetadata reports whether decoding metadata into an ObjectMeta and encoding it again would
// change nothing: all fields are known, have the right type, are not empty, and are in canonical
// form. Nearly all metadata is, and need not be decoded. It may return false for metadata that
// would not change.
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

// plainOwner accepts owner references with the four fields that are not omitted when empty.
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
