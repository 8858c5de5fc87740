package strategytest

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

// Write is a request: a create, or an update of an object or of its subresource.
type Write struct {
	Subresource string
	// Object is as clients send it, and Old as it is stored; Old is nil on create.
	Object, Old runtime.Object
}

// Outcome has the object, the errors and the warnings of a write.
type Outcome struct {
	// Defaulted is the object with defaults, and Result with what the strategy has set and reset, both as JSON.
	Defaulted, Result string
	// Errors are the errors of fields, and Warnings the warnings, each in order. Failed is an error that is not about fields.
	Errors, Warnings []string
	Failed           string
}

// Valid reports whether the write is carried out.
func (o *Outcome) Valid() bool { return len(o.Errors) == 0 && o.Failed == "" }

// Do carries out a write on one side. It does not change the objects.
func (k *Kind) Do(s *Side, w Write) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.Failed = fmt.Sprintf("panic: %v", p)
		}
	}()
	obj, err := s.read(w.Object)
	if err == nil {
		o.Defaulted, err = k.encode(s, obj)
	}
	if err != nil {
		o.Failed = "read: " + err.Error()
		return o
	}
	ctx := k.context(w, &o)
	strategy := s.Strategies[w.Subresource]
	if w.Old == nil {
		err = rest.BeforeCreate(strategy.(rest.RESTCreateStrategy), ctx, obj)
	} else {
		var old runtime.Object
		if old, err = s.read(w.Old); err != nil {
			o.Failed = "read the old object: " + err.Error()
			return o
		}
		err = rest.BeforeUpdate(strategy, ctx, obj, old)
	}
	o.setErrors(k, err)
	if o.Result, err = k.encode(s, obj); err != nil {
		o.Failed = "write: " + err.Error()
	}
	slices.Sort(o.Warnings)
	return o
}

// read returns a copy of the object with defaults, in the version of the strategies.
func (s *Side) read(obj runtime.Object) (runtime.Object, error) {
	obj = obj.DeepCopyObject()
	s.Defaulter.Default(obj)
	return s.Convertor.ConvertToVersion(obj, s.Hub)
}

// encode returns the JSON of an object in the version of the kind.
func (k *Kind) encode(s *Side, obj runtime.Object) (string, error) {
	versioned, err := s.Convertor.ConvertToVersion(obj.DeepCopyObject(), k.GVK.GroupVersion())
	if err != nil {
		return "", err
	}
	s.Defaulter.Default(versioned) // as a stored object, when it is read again
	versioned.GetObjectKind().SetGroupVersionKind(k.GVK)
	text, err := json.Marshal(versioned)
	return string(text), err
}

// context returns the context of a request. The warnings go to o.
func (k *Kind) context(w Write, o *Outcome) context.Context {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "update", APIPrefix: "apis", APIGroup: k.Resource.Group,
		APIVersion: k.Resource.Version, Resource: k.Resource.Resource, Subresource: w.Subresource}
	if w.Old == nil {
		info.Verb = "create"
	}
	if k.Namespaced {
		info.Namespace = Namespace
	}
	ctx := request.WithNamespace(context.Background(), info.Namespace)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"system:authenticated"}})
	return warning.WithWarningRecorder(request.WithRequestInfo(ctx, info), (*recorder)(o))
}

// recorder collects the warnings of a write.
type recorder Outcome

func (r *recorder) AddWarning(_, text string) {
	if !strings.HasPrefix(text, "this server stores ") { // kinds that have no effect here
		r.Warnings = append(r.Warnings, text)
	}
}

// shuffled are the volumes of a StatefulSet. kube-apiserver checks them in the random order of a map, together with the
// volumes of the claims.
var shuffled = regexp.MustCompile(`^(spec\.template\.spec\.volumes)\[\d+\]`)

// setErrors sets the errors of fields, or the failure if err has none.
func (o *Outcome) setErrors(k *Kind, err error) {
	if err == nil {
		return
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		o.Failed = err.Error()
		return
	}
	set := map[string]bool{}
	for _, c := range status.ErrStatus.Details.Causes {
		message, _, _ := strings.Cut(c.Message, "\n") // of a pod, the lines below show the change of internal types
		if k.Resource.Resource == "statefulsets" {
			c.Field = shuffled.ReplaceAllString(c.Field, "$1[]")
		}
		set[fmt.Sprintf("%s: %s: %s", c.Field, c.Type, message)] = true
	}
	o.Errors = slices.Sorted(maps.Keys(set))
}

// Compare returns the differences between two outcomes, as lines that begin with where they are.
func Compare(ours, theirs *Outcome) []string {
	var all []string
	if ours.Failed != theirs.Failed {
		return []string{fmt.Sprintf("failure ours: %s, theirs: %s", ours.Failed, theirs.Failed)}
	}
	add := func(what string, details ...string) {
		for _, d := range details {
			all = append(all, what+" "+d)
		}
	}
	add("default", Differences(ours.Defaulted, theirs.Defaulted)...)
	if len(all) == 0 {
		add("object", Differences(ours.Result, theirs.Result)...)
	}
	add("missing error", without(theirs.Errors, ours.Errors)...)
	add("unexpected error", without(ours.Errors, theirs.Errors)...)
	if ours.Valid() && theirs.Valid() {
		add("missing warning", without(theirs.Warnings, ours.Warnings)...)
		add("unexpected warning", without(ours.Warnings, theirs.Warnings)...)
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

// Differences returns the paths at which two JSON objects differ, with both values.
func Differences(ours, theirs string) []string {
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

// valueDifferences adds the differences of two values at a path.
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
