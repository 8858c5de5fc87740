package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Redactor replaces values of objects by values that tell nothing but whether two values were equal. They are
// authentication codes by a random key that only the redactor has.
type Redactor struct {
	key   [32]byte
	rules map[schema.GroupResource][][]string // paths of fields
}

// SecretFields are the fields that hold the data of Secrets.
var SecretFields = []string{"secrets=data", "secrets=stringData"}

// NewRedactor returns a redactor of fields, such as configmaps=data or databases.example.com=spec.password: all values below the
// field. What kubectl apply keeps of the last manifest is redacted with them.
func NewRedactor(fields []string) (*Redactor, error) {
	r := &Redactor{rules: map[schema.GroupResource][][]string{}}
	if _, err := rand.Read(r.key[:]); err != nil {
		return nil, err
	}
	for _, field := range fields {
		resource, path, ok := strings.Cut(field, "=")
		steps := strings.Split(path, ".")
		if !ok || resource == "" || slices.Contains(steps, "") {
			return nil, fmt.Errorf("%q is not RESOURCE.GROUP=FIELD, such as configmaps=data or databases.example.com=spec.password", field)
		}
		name := schema.ParseGroupResource(resource)
		r.rules[name] = append(r.rules[name], steps)
	}
	return r, nil
}

// fields returns the fields that are redacted, as NewRedactor takes them.
func (r *Redactor) fields() (fields []string) {
	for resource, paths := range r.rules {
		for _, path := range paths {
			fields = append(fields, resource.String()+"="+strings.Join(path, "."))
		}
	}
	slices.Sort(fields)
	return fields
}

// Redact returns an object without the values. It returns the object itself if no field of the resource is redacted.
func (r *Redactor) Redact(resource schema.GroupResource, object json.RawMessage) (json.RawMessage, error) {
	paths := r.rules[resource]
	if paths == nil {
		return object, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var content map[string]any
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	encoded := func(path []string) bool {
		return resource == schema.GroupResource{Resource: "secrets"} && path[0] == "data"
	}
	for _, path := range paths {
		r.replace(content, path, encoded(path))
	}
	r.replace(content, []string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}, false)
	return json.Marshal(content)
}

// replace replaces the values below a path. Lists on the way are entered.
func (r *Redactor) replace(value any, path []string, encoded bool) {
	switch value := value.(type) {
	case map[string]any:
		inner, ok := value[path[0]]
		switch {
		case !ok:
		case len(path) > 1:
			r.replace(inner, path[1:], encoded)
		default:
			value[path[0]] = r.replaced(inner, encoded)
		}
	case []any:
		for _, element := range value {
			r.replace(element, path, encoded)
		}
	}
}

// replaced returns what stands for a value.
func (r *Redactor) replaced(value any, encoded bool) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			value[name] = r.replaced(inner, encoded)
		}
		return value
	case []any:
		for i, inner := range value {
			value[i] = r.replaced(inner, encoded)
		}
		return value
	case string:
		if !encoded {
			return r.code([]byte(value))
		}
		data, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			data = []byte(value)
		}
		return base64.StdEncoding.EncodeToString([]byte(r.code(data)))
	case json.Number:
		return json.Number(strconv.Itoa(int(binary.BigEndian.Uint32(r.mac([]byte(value))) >> 1)))
	}
	return value // true, false and null
}

// code returns the code of a value. A JSON object stays one, since some Secrets must be JSON.
func (r *Redactor) code(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	code := "redacted-" + hex.EncodeToString(r.mac(value)[:12])
	if first := bytes.TrimLeft(value, " \t\r\n"); len(first) > 0 && first[0] == '{' && json.Valid(value) {
		return `{"redacted":"` + code + `"}`
	}
	return code
}

// mac returns the authentication code of a value.
func (r *Redactor) mac(value []byte) []byte {
	mac := hmac.New(sha256.New, r.key[:])
	mac.Write(value)
	return mac.Sum(nil)
}
