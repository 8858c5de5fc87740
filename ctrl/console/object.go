package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// requestTimeout limits a request to the API server for a page.
const requestTimeout = 5 * time.Second

// Object is an object on the API server.
type Object struct {
	Kind       string      `json:"kind"`
	Name       string      `json:"name"`
	UID        string      `json:"uid,omitempty"`
	Version    string      `json:"resourceVersion,omitempty"`
	Generation int64       `json:"generation,omitempty"`
	Created    time.Time   `json:"created,omitzero"`
	Deleting   time.Time   `json:"deleting,omitzero"`
	Finalizers []Finalizer `json:"finalizers,omitempty"`
	Health     Health      `json:"health"`
	Conditions []Condition `json:"conditions,omitempty"`
	Fields     []Field     `json:"fields,omitempty"`
	Events     []Event     `json:"events,omitempty"` // the newest first
	// How many more there are.
	MoreFinalizers int `json:"moreFinalizers,omitempty"`
	MoreConditions int `json:"moreConditions,omitempty"`
	MoreFields     int `json:"moreFields,omitempty"`
	MoreEvents     int `json:"moreEvents,omitempty"`
	// Missing says why parts are missing: the object is gone, or the operator may not read it.
	Missing []string `json:"missing,omitempty"`
}

// Health is a verdict about an object from its conditions, phase and generation.
type Health struct {
	State  string `json:"state"` // healthy, progressing, failing, deleting or unknown
	Reason string `json:"reason,omitempty"`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Behind  bool      `json:"behindGeneration,omitempty"`
}

// Field is a field with the manager that owns it.
type Field struct {
	Field   string    `json:"field"`
	Value   string    `json:"value"`
	Manager string    `json:"manager"`
	How     string    `json:"operation"`
	Time    time.Time `json:"time,omitzero"`
}

// Event is an event of an object.
type Event struct {
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
	By     string    `json:"by,omitempty"`
	Count  int32     `json:"count,omitempty"`
}

// Finalizer is a finalizer with the manager that has set it.
type Finalizer struct {
	Name    string `json:"name"`
	Manager string `json:"manager,omitempty"`
}

// resolve returns the kind that a text such as Deployment.apps names, and whether the kind is namespaced. Upper and lower case are the
// same.
func (c *Console) resolve(kind string) (gvk schema.GroupVersionKind, namespaced bool, err error) {
	mapper := c.manager.GetRESTMapper()
	mapping, err := mapper.RESTMapping(schema.ParseGroupKind(kind))
	if meta.IsNoMatchError(err) { // mappers of discovery know a kind in lower case too
		mapping, err = mapper.RESTMapping(schema.ParseGroupKind(strings.ToLower(kind)))
	}
	if err == nil { // the mapping has the kind as it was asked for
		gvk, err = mapper.KindFor(mapping.Resource)
	}
	if err != nil {
		return gvk, false, &pageError{http.StatusNotFound, fmt.Sprintf("The API server serves no kind %s", clip(kind, 300))}
	}
	return gvk, mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// object reads an object, its fields and its events from the API server.
func (c *Console) object(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) *Object {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	v := &Object{Kind: kindText(gvk), Name: joinName(key)}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err := c.manager.GetAPIReader().Get(ctx, key, u)
	switch {
	case apierrors.IsNotFound(err):
		v.Missing = append(v.Missing, "There is no such object now.")
	case err != nil:
		v.Missing = append(v.Missing, "The object cannot be read: "+err.Error())
	default:
		v.fill(gvk, u)
	}
	if v.Events, v.MoreEvents, err = c.eventsOf(ctx, gvk, key); err != nil {
		v.Missing = append(v.Missing, "The events cannot be read: "+err.Error())
	}
	return v
}

func joinName(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// fill sets the parts of an object.
func (v *Object) fill(gvk schema.GroupVersionKind, u *unstructured.Unstructured) {
	v.UID, v.Version, v.Generation = string(u.GetUID()), u.GetResourceVersion(), u.GetGeneration()
	v.Created = u.GetCreationTimestamp().Time
	if at := u.GetDeletionTimestamp(); at != nil {
		v.Deleting = at.Time
	}
	v.Finalizers, v.MoreFinalizers = finalizersOf(u)
	v.Conditions = conditionsOf(u)
	v.Health = healthOf(u)
	v.Fields, v.MoreFields = fieldsOf(gvk, u)
}

// finalizersOf returns the first finalizers with the managers that own them, and how many more there are.
func finalizersOf(obj metav1.Object) (all []Finalizer, more int) {
	names := obj.GetFinalizers()
	cut(&names, maxFinalizers, &more)
	for _, name := range names {
		f := Finalizer{Name: name}
		for _, entry := range obj.GetManagedFields() {
			if entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.GetRawBytes()), fmt.Sprintf(`"v:\"%s\""`, name)) {
				f.Manager = entry.Manager
			}
		}
		all = append(all, f)
	}
	return all, more
}

func conditionsOf(u *unstructured.Unstructured) (all []Condition) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		c := Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: clip(text("message"), 1000)}
		c.Since, _ = time.Parse(time.RFC3339, text("lastTransitionTime"))
		if observed, ok := m["observedGeneration"].(int64); ok {
			c.Behind = observed < u.GetGeneration()
		}
		all = append(all, c)
	}
	return all
}

// badWhenTrue are conditions that are bad news when they are true.
var badWhenTrue = []string{"Degraded", "Failed", "Failing", "Stalled", "ReplicaFailure", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}

// goodWhenTrue are conditions that say that an object is as it should be.
var goodWhenTrue = []string{"Ready", "Available", "Complete", "Succeeded", "Established"}

// healthOf judges an object.
func healthOf(u *unstructured.Unstructured) Health {
	if u.GetDeletionTimestamp() != nil {
		reason := ""
		if f := u.GetFinalizers(); len(f) > 0 {
			reason = "waits for " + clip(strings.Join(f, ", "), 1000)
		}
		return Health{"deleting", reason}
	}
	health := Health{State: "unknown"}
	if observed, ok, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); ok && observed < u.GetGeneration() {
		return Health{"progressing", fmt.Sprintf("generation %d is observed of %d", observed, u.GetGeneration())}
	}
	for _, c := range conditionsOf(u) {
		bad := slices.Contains(badWhenTrue, c.Type) && c.Status == "True"
		good := slices.Contains(goodWhenTrue, c.Type)
		switch {
		case bad:
			return Health{"failing", strings.TrimSpace(c.Type + " " + c.Reason)}
		case good && c.Status == "True" && health.State == "unknown":
			health = Health{"healthy", c.Type}
		case good && c.Status != "True":
			health = Health{"progressing", strings.TrimSpace("not " + c.Type + " " + c.Reason)}
		}
	}
	if health.State != "unknown" {
		return health
	}
	switch phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase {
	case "":
		return health
	case "Failed", "Lost", "Unknown":
		return Health{"failing", phase}
	case "Pending", "Terminating":
		return Health{"progressing", phase}
	default:
		return Health{"healthy", phase}
	}
}

// fieldsOf returns the first fields that have managers, and how many more there are.
func fieldsOf(gvk schema.GroupVersionKind, u *unstructured.Unstructured) (all []Field, more int) {
	for _, entry := range u.GetManagedFields() {
		var set map[string]any
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		how := string(entry.Operation)
		if entry.Subresource != "" {
			how += " " + entry.Subresource
		}
		at := time.Time{}
		if entry.Time != nil {
			at = entry.Time.Time
		}
		more += ownedFields(set, "", u.Object, func(path string, value any) bool {
			if len(all) == maxRows {
				return false
			}
			all = append(all, Field{path, shown(gvk, path, value), entry.Manager, how, at})
			return true
		})
	}
	slices.SortFunc(all, func(a, b Field) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Manager, b.Manager)) })
	return all, more
}

// ownedFields calls add with the fields of a set that have no fields of the set below, in order, until it returns false. It
// returns how many fields there are from then on, without a look at their values.
func ownedFields(set map[string]any, path string, value any, add func(path string, value any) bool) (more int) {
	below := false
	for _, step := range slices.Sorted(maps.Keys(set)) {
		subset, _ := set[step].(map[string]any)
		if more > 0 {
			more += countFields(subset)
			continue
		}
		name, next, ok := followed(step, path, value)
		if !ok {
			continue
		}
		below = true
		more += ownedFields(subset, name, next, add)
	}
	if !below && path != "" && value != nil && !add(path, value) {
		return more + 1
	}
	return more
}

// countFields returns how many fields of a set have no fields below.
func countFields(set map[string]any) (n int) {
	for step, sub := range set {
		if step != "." {
			subset, _ := sub.(map[string]any)
			n += countFields(subset)
		}
	}
	return max(n, 1)
}

// followed follows a step of a set of fields, and returns the path and the value there.
func followed(step, path string, value any) (name string, next any, ok bool) {
	kind, key, ok := strings.Cut(step, ":")
	if !ok {
		return "", nil, false // "." is the field itself
	}
	switch kind {
	case "f":
		m, _ := value.(map[string]any)
		return joined(path, key), m[key], true
	case "k":
		var keys map[string]any
		if json.Unmarshal([]byte(key), &keys) != nil {
			return "", nil, false
		}
		list, _ := value.([]any)
		var names []string
		for k, v := range keys {
			names = append(names, fmt.Sprintf("%s=%v", k, v))
		}
		slices.Sort(names)
		for _, item := range list {
			if m, _ := item.(map[string]any); matches(m, keys) {
				next = item
			}
		}
		return path + "[" + strings.Join(names, ",") + "]", next, true
	case "v":
		var element any
		if json.Unmarshal([]byte(key), &element) != nil {
			return "", nil, false
		}
		return fmt.Sprintf("%s[%v]", path, element), element, true
	default:
		return path + "[" + key + "]", nil, true
	}
}

func matches(m, keys map[string]any) bool {
	for k, v := range keys {
		text, ok := v.(string)
		if own, _ := m[k].(string); ok && own != text || !ok && fmt.Sprint(m[k]) != fmt.Sprint(v) {
			return false
		}
	}
	return m != nil
}

// eventsOf returns the events of an object, the newest first, and how many more were read.
func (c *Console) eventsOf(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (all []Event, more int, err error) {
	var list corev1.EventList
	err = c.manager.GetAPIReader().List(ctx, &list, client.InNamespace(cmp.Or(key.Namespace, metav1.NamespaceDefault)),
		client.MatchingFields{"involvedObject.kind": gvk.Kind, "involvedObject.name": key.Name}, client.Limit(500))
	if err != nil {
		return nil, 0, err
	}
	for _, e := range list.Items {
		v := Event{
			Time: e.LastTimestamp.Time, Type: e.Type, Reason: e.Reason, Note: clip(e.Message, 1000),
			By: cmp.Or(e.ReportingController, e.Source.Component), Count: e.Count,
		}
		switch {
		case e.Series != nil:
			v.Time, v.Count = e.Series.LastObservedTime.Time, e.Series.Count
		case v.Time.IsZero() && !e.EventTime.IsZero():
			v.Time = e.EventTime.Time
		case v.Time.IsZero():
			v.Time = e.CreationTimestamp.Time
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return b.Time.Compare(a.Time) })
	cut(&all, 50, &more)
	return all, more, nil
}
