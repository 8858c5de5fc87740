package validation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// write is a request: a create, or an update of an object or of its subresource.
type write struct {
	subresource string
	obj, old    runtime.Object // as clients send it, and as it is stored; old is nil on create
}

// outcome is what becomes of a write.
type outcome struct {
	defaulted string // as JSON
	object    string // as JSON, with what the strategy has reset
	errors    []string
	warnings  []string
	failed    string // an error that is not about fields
}

// valid reports whether the write is carried out.
func (o *outcome) valid() bool { return len(o.errors) == 0 && o.failed == "" }

// do carries out a write on one side.
func (k *kind) do(s *side, w write) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.failed = fmt.Sprintf("panic: %v", p)
		}
	}()
	obj, err := s.read(w.obj)
	if err == nil {
		o.defaulted, err = k.encode(s, obj)
	}
	if err != nil {
		o.failed = "read: " + err.Error()
		return o
	}
	ctx := k.context(w, &o)
	strategy := s.strategies[w.subresource]
	if w.old == nil {
		err = rest.BeforeCreate(strategy.(rest.RESTCreateStrategy), ctx, obj)
	} else {
		var old runtime.Object
		if old, err = s.read(w.old); err != nil {
			o.failed = "read the old object: " + err.Error()
			return o
		}
		err = rest.BeforeUpdate(strategy, ctx, obj, old)
	}
	o.addErrors(k, err)
	if o.object, err = k.encode(s, obj); err != nil {
		o.failed = "write: " + err.Error()
	}
	slices.Sort(o.warnings)
	return o
}

// read returns a copy of the object with defaults, in the version of the strategies.
func (s *side) read(obj runtime.Object) (runtime.Object, error) {
	obj = obj.DeepCopyObject()
	s.defaulter.Default(obj)
	return s.convertor.ConvertToVersion(obj, s.hub)
}

// encode returns the JSON of an object in the version of the kind.
func (k *kind) encode(s *side, obj runtime.Object) (string, error) {
	versioned, err := s.convertor.ConvertToVersion(obj.DeepCopyObject(), k.gvk.GroupVersion())
	if err != nil {
		return "", err
	}
	s.defaulter.Default(versioned) // as a stored object, when it is read again
	versioned.GetObjectKind().SetGroupVersionKind(k.gvk)
	text, err := json.Marshal(versioned)
	return string(text), err
}

// context returns the context of a request. The warnings go to o.
func (k *kind) context(w write, o *outcome) context.Context {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "update", APIPrefix: "apis", APIGroup: k.resource.Group,
		APIVersion: k.resource.Version, Resource: k.resource.Resource, Subresource: w.subresource}
	if w.old == nil {
		info.Verb = "create"
	}
	if k.namespaced {
		info.Namespace = testNamespace
	}
	ctx := request.WithNamespace(context.Background(), info.Namespace)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"system:authenticated"}})
	return warning.WithWarningRecorder(request.WithRequestInfo(ctx, info), (*recorder)(o))
}

// recorder collects the warnings of a write.
type recorder outcome

func (r *recorder) AddWarning(_, text string) {
	if !strings.HasPrefix(text, "this server stores ") { // kinds that have no effect here
		r.warnings = append(r.warnings, text)
	}
}

// shuffled are the volumes of a StatefulSet. kube-apiserver checks them in the random order of a map, together with the
// volumes of the claims.
var shuffled = regexp.MustCompile(`^(spec\.template\.spec\.volumes)\[\d+\]`)

// addErrors adds the errors of fields, or err itself if it has none.
func (o *outcome) addErrors(k *kind, err error) {
	if err == nil {
		return
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		o.failed = err.Error()
		return
	}
	set := map[string]bool{}
	for _, c := range status.ErrStatus.Details.Causes {
		message, _, _ := strings.Cut(c.Message, "\n") // of a pod, the lines below show the change of internal types
		if k.resource.Resource == "statefulsets" {
			c.Field = shuffled.ReplaceAllString(c.Field, "$1[]")
		}
		set[fmt.Sprintf("%s: %s: %s", c.Field, c.Type, message)] = true
	}
	o.errors = slices.Sorted(maps.Keys(set))
}

// compare returns the differences between two outcomes, as lines that begin with where they are.
func compare(ours, theirs *outcome) []string {
	var all []string
	if ours.failed != theirs.failed {
		return []string{fmt.Sprintf("failure ours: %s, theirs: %s", ours.failed, theirs.failed)}
	}
	add := func(what string, details ...string) {
		for _, d := range details {
			all = append(all, what+" "+d)
		}
	}
	add("default", objectDifferences(ours.defaulted, theirs.defaulted)...)
	if len(all) == 0 {
		add("object", objectDifferences(ours.object, theirs.object)...)
	}
	add("missing error", without(theirs.errors, ours.errors)...)
	add("further error", without(ours.errors, theirs.errors)...)
	if ours.valid() && theirs.valid() {
		add("missing warning", without(theirs.warnings, ours.warnings)...)
		add("further warning", without(ours.warnings, theirs.warnings)...)
	}
	return all
}

// without returns the elements of a that b does not have.
func without(a, b []string) []string {
	var left []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			left = append(left, s)
		}
	}
	return left
}

// objectDifferences returns the paths at which two JSON objects differ, with both values.
func objectDifferences(ours, theirs string) []string {
	if ours == theirs || ours == "" || theirs == "" {
		return nil
	}
	var a, b any
	if json.Unmarshal([]byte(ours), &a) != nil || json.Unmarshal([]byte(theirs), &b) != nil {
		return []string{"no JSON"}
	}
	var all []string
	valueDifferences("", a, b, &all)
	return all
}

func valueDifferences(path string, ours, theirs any, all *[]string) {
	switch a := ours.(type) {
	case map[string]any:
		if b, ok := theirs.(map[string]any); ok {
			keys := map[string]bool{}
			for key := range a {
				keys[key] = true
			}
			for key := range b {
				keys[key] = true
			}
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				at := path + "." + key
				if strings.ContainsAny(key, "./") {
					at = path + "[" + key + "]"
				}
				valueDifferences(strings.TrimPrefix(at, "."), a[key], b[key], all)
			}
			return
		}
	case []any:
		if b, ok := theirs.([]any); ok && len(a) == len(b) {
			for i := range a {
				valueDifferences(path+"["+strconv.Itoa(i)+"]", a[i], b[i], all)
			}
			return
		}
	}
	if !reflect.DeepEqual(ours, theirs) {
		x, _ := json.Marshal(ours)
		y, _ := json.Marshal(theirs)
		*all = append(*all, fmt.Sprintf("%s: ours %s, theirs %s", path, x, y))
	}
}

var (
	inBrackets = regexp.MustCompile(`\[[^\]]*\]`)
	quoted     = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|'[^']*'")
	numbers    = regexp.MustCompile(`-?[0-9]+`)
	bothSides  = regexp.MustCompile(`ours .*, theirs .*$`)
)

// signature returns a difference without names, numbers and values, by which equal differences are found.
func signature(difference string) string {
	s := quoted.ReplaceAllString(difference, "_")
	if strings.HasPrefix(s, "default ") || strings.HasPrefix(s, "object ") {
		s = bothSides.ReplaceAllString(difference, "")
		s = strings.TrimSuffix(s, ": ")
	}
	s = inBrackets.ReplaceAllString(s, "[]")
	s = numbers.ReplaceAllString(s, "0")
	if i := strings.IndexAny(s, "{\n"); i >= 0 {
		s = s[:i]
	}
	if len(s) > 200 {
		s = s[:200]
	}
	return strings.TrimSpace(s)
}
