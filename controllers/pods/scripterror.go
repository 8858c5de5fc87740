package pods

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers/internal/podstate"
)

// fieldError returns the error of the first field of a script, in YAML, that does not fit, with its path. If all fit, it returns the
// given error of the decoder.
func fieldError(text string, err error) error {
	var value any
	if yaml.Unmarshal([]byte(text), &value) != nil {
		return err
	}
	if why := misfit("", value, reflect.TypeFor[Script]()); why != nil {
		return why
	}
	return err
}

// documents returns the number of YAML documents in a text.
func documents(text string) (n int) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		if _, err := r.Read(); err != nil {
			return n
		}
		n++
	}
}

// misfit returns why a value at a path, as encoding/json has it, cannot be decoded to a type.
func misfit(path string, value any, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, decodes := reflect.New(t).Interface().(json.Unmarshaler)
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	switch {
	case value == nil:
		return nil
	case isObject && !decodes && t.Kind() == reflect.Struct:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			field, ok := t.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
			if !ok || !field.IsExported() {
				return fmt.Errorf("unknown field %q", strings.TrimPrefix(path+"."+name, "."))
			}
			if err := misfit(strings.TrimPrefix(path+"."+name, "."), object[name], field.Type); err != nil {
				return err
			}
		}
		return nil
	case isObject && !decodes && t.Kind() == reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if err := misfit(fmt.Sprintf("%s[%s]", path, key), object[key], t.Elem()); err != nil {
				return err
			}
		}
		return nil
	case isList && !decodes && t.Kind() == reflect.Slice:
		for i := range list {
			if err := misfit(fmt.Sprintf("%s[%d]", path, i), list[i], t.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("a value of type %s, not %s", kindOf(wrong.Type), wrong.Value)
	}
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// kindOf returns the name of a type in JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.String, reflect.Bool:
		return t.Kind().String()
	default:
		return "integer"
	}
}

// unknownContainerError is the error of a script with the name of a container that a pod does not have. An ephemeral container may come
// later, so nobody knows whether the name is right.
type unknownContainerError struct{ text string }

func (e *unknownContainerError) Error() string { return e.text }

// nameError returns the error of a script with the name of a container that a pod does not have, or not yet.
func nameError(pod *corev1.Pod, s *Script) error {
	if s == nil {
		return nil
	}
	for i := range s.Containers {
		if name := s.Containers[i].Name; name != "" && podstate.Container(&pod.Spec, name) == nil {
			return &unknownContainerError{fmt.Sprintf("metadata.annotations[%s]: containers[%d].name: the pod has no container %q", ScriptAnnotation, i, name)}
		}
	}
	return nil
}
