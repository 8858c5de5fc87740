package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// eventTTL is the lifetime of an event.
//
//upstream:pkg/controlplane/apiserver/options.NewOptions
const eventTTL = time.Hour

// Events describes the kind Event, which the core group and events.k8s.io serve.
//
//upstream:pkg/registry/core/event.eventStrategy
//upstream:pkg/registry/core/event/storage.REST.ShortNames
//upstream:pkg/apis/events/v1.AddFieldLabelConversionsForEvent
//upstream:pkg/printers/internalversion.printEvent
func Events() kinds.Kind {
	return kinds.Of[*corev1.Event]{
		Type: &corev1.Event{}, List: &corev1.EventList{},
		Plural: "events", ShortNames: []string{"ev"},
		Name:           eventName,
		AnyFinalizers:  true,
		CreateOnUpdate: true,
		Validate:       func(e *corev1.Event) field.ErrorList { return validateEvent(e, "reportingComponent") },
		TTL:            eventTTL,
		Columns:        eventColumns,
		Row:            eventRow,
		Bare:           true,
		Fields:         eventFields,
		AlsoServed: []kinds.Alias[*corev1.Event]{{
			Type:           &eventsv1.Event{},
			Name:           fieldrules.NameIsSubdomain,
			Validate:       func(e *corev1.Event) field.ErrorList { return validateEvent(e, "reportingController") },
			ValidateCreate: validateNewEvent,
			ValidateUpdate: validateEventUpdate,
			Fields: map[string]string{
				"regarding.kind":            "involvedObject.kind",
				"regarding.namespace":       "involvedObject.namespace",
				"regarding.name":            "involvedObject.name",
				"regarding.uid":             "involvedObject.uid",
				"regarding.apiVersion":      "involvedObject.apiVersion",
				"regarding.resourceVersion": "involvedObject.resourceVersion",
				"regarding.fieldPath":       "involvedObject.fieldPath",
				"reason":                    "reason",
				"reportingController":       "reportingComponent",
				"type":                      "type",
			},
		}},
	}
}

// eventName leaves the check of the name of an event of the core group to the registry, which checks every name.
//
//upstream:pkg/registry/core/event.eventStrategy.Validate
func eventName(string, bool) []string { return nil }

// eventFields returns the fields of an event that selectors can name.
//
//upstream:pkg/registry/core/event.ToSelectableFields
//upstream:pkg/apis/core/v1.AddFieldLabelConversionsForEvent
func eventFields(e *corev1.Event) fields.Set {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	o := e.InvolvedObject
	return fields.Set{
		"involvedObject.kind":            o.Kind,
		"involvedObject.namespace":       o.Namespace,
		"involvedObject.name":            o.Name,
		"involvedObject.uid":             string(o.UID),
		"involvedObject.apiVersion":      o.APIVersion,
		"involvedObject.resourceVersion": o.ResourceVersion,
		"involvedObject.fieldPath":       o.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             e.ReportingController,
		"source":                         source,
		"type":                           e.Type,
	}
}

// The maximum lengths of the fields of an event, in bytes.
//
//upstream:pkg/apis/core/validation.ReportingInstanceLengthLimit
//upstream:pkg/apis/core/validation.ActionLengthLimit
//upstream:pkg/apis/core/validation.ReasonLengthLimit
//upstream:pkg/apis/core/validation.NoteLengthLimit
const (
	maxEventWord = 128
	maxEventNote = 1024
)

// validateEvent checks that an event is in the namespace of its object, or in the default namespace if
// the object is cluster-scoped. An event with an eventTime needs a reporter and an action. The argument
// controller is the name of the field with the reporting controller.
//
//upstream:pkg/apis/core/validation.legacyValidateEvent
func validateEvent(e *corev1.Event, controller string) field.ErrorList {
	var errs field.ErrorList
	about, isNew := e.InvolvedObject.Namespace, !e.EventTime.IsZero()
	here := about == e.Namespace
	if about == "" {
		here = e.Namespace == "" || e.Namespace == metav1.NamespaceDefault || isNew && e.Namespace == metav1.NamespaceSystem
	}
	if !here && (about == "" || !isNew) {
		errs = append(errs, field.Invalid(fieldrules.Root.ChildField("involvedObject").Child("namespace"), about,
			"does not match event.namespace"))
	}
	if !isNew {
		return errs
	}
	errs = append(errs, fieldrules.Required(e.ReportingController, &fieldrules.Root, controller)...)
	errs = append(errs, fieldrules.QualifiedName(e.ReportingController, &fieldrules.Root, controller)...)
	for _, word := range [...]struct{ name, value string }{
		{"reportingInstance", e.ReportingInstance}, {"action", e.Action}, {"reason", e.Reason},
	} {
		errs = append(errs, fieldrules.Required(word.value, &fieldrules.Root, word.name)...)
		if len(word.value) > maxEventWord {
			errs = append(errs, field.Invalid(fieldrules.Root.ChildField(word.name), "",
				fmt.Sprintf("can have at most %d characters", maxEventWord)))
		}
	}
	if len(e.Message) > maxEventNote {
		errs = append(errs, field.Invalid(fieldrules.Root.ChildField("message"), "",
			fmt.Sprintf("can have at most %d characters", maxEventNote)))
	}
	return errs
}

// validateNewEvent checks the fields that events.k8s.io requires or forbids in a new event.
//
//upstream:pkg/apis/core/validation.ValidateEventCreate
func validateNewEvent(e *corev1.Event) field.ErrorList {
	errs := append(eventFinalizers(e), eventSeries(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(fieldrules.Root.ChildField("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(fieldrules.Root.ChildField("type"), "", "has invalid value: "+e.Type))
	}
	for _, old := range [...]struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !e.FirstTimestamp.IsZero()}, {"lastTimestamp", !e.LastTimestamp.IsZero()},
		{"count", e.Count != 0}, {"source", e.Source != corev1.EventSource{}},
	} {
		if old.set {
			errs = append(errs, field.Invalid(fieldrules.Root.ChildField(old.name), "", "needs to be unset"))
		}
	}
	return errs
}

// eventFinalizers checks the names of the finalizers. The core group accepts any names.
//
//upstream:pkg/apis/core/validation.ValidateObjectMeta
func eventFinalizers(e *corev1.Event) field.ErrorList {
	at := fieldrules.Metadata.Child("finalizers")
	return fieldrules.Finalizers(e.Finalizers, &at)
}

// eventSeries checks the count and the time of a series.
//
//upstream:pkg/apis/core/validation.validateV1EventSeries
func eventSeries(s *corev1.EventSeries) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Count < 2 {
		errs = append(errs, field.Invalid(fieldrules.Root.ChildField("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(fieldrules.Root.ChildField("series.lastObservedTime"), ""))
	}
	return errs
}

// validateEventUpdate checks that only the series of an event changes. The comparison of the eventTime
// truncates it to microseconds, the precision of JSON.
//
//upstream:pkg/apis/core/validation.ValidateEventUpdate
func validateEventUpdate(e, old *corev1.Event) field.ErrorList {
	errs := eventFinalizers(e)
	if !equality.Semantic(e.Series, old.Series) {
		errs = append(errs, eventSeries(e.Series)...)
	}
	errs = append(errs, fieldrules.ImmutableStruct(e.InvolvedObject, old.InvolvedObject, &fieldrules.Root, "involvedObject")...)
	errs = append(errs, fieldrules.Immutable(e.Reason, old.Reason, &fieldrules.Root, "reason")...)
	errs = append(errs, fieldrules.Immutable(e.Message, old.Message, &fieldrules.Root, "message")...)
	errs = append(errs, fieldrules.ImmutableStruct(e.Source, old.Source, &fieldrules.Root, "source")...)
	errs = append(errs, fieldrules.Immutable(e.FirstTimestamp, old.FirstTimestamp, &fieldrules.Root, "firstTimestamp")...)
	errs = append(errs, fieldrules.Immutable(e.LastTimestamp, old.LastTimestamp, &fieldrules.Root, "lastTimestamp")...)
	errs = append(errs, fieldrules.Immutable(e.Count, old.Count, &fieldrules.Root, "count")...)
	errs = append(errs, fieldrules.Immutable(e.Type, old.Type, &fieldrules.Root, "type")...)
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		errs = append(errs, fieldrules.Immutable(e.EventTime, old.EventTime, &fieldrules.Root, "eventTime")...)
	}
	errs = append(errs, fieldrules.Immutable(e.Action, old.Action, &fieldrules.Root, "action")...)
	errs = append(errs, fieldrules.ImmutableStruct(e.Related, old.Related, &fieldrules.Root, "related")...)
	errs = append(errs, fieldrules.Immutable(e.ReportingController, old.ReportingController, &fieldrules.Root,
		"reportingController")...)
	return append(errs, fieldrules.Immutable(e.ReportingInstance, old.ReportingInstance, &fieldrules.Root,
		"reportingInstance")...)
}

// ConvertEvents adds the conversions between the events of both groups to the scheme.
func ConvertEvents(s *runtime.Scheme) error {
	return kinds.AddConversions(s, kinds.Infallible(toEventsV1), kinds.Infallible(toCoreV1),
		func(l *corev1.EventList) (*metav1.ListMeta, *[]corev1.Event) { return &l.ListMeta, &l.Items },
		func(l *eventsv1.EventList) (*metav1.ListMeta, *[]eventsv1.Event) { return &l.ListMeta, &l.Items })
}

// toEventsV1 converts an event. The result shares memory with it.
//
//upstream:pkg/apis/events/v1.Convert_core_Event_To_v1_Event
func toEventsV1(e *corev1.Event, out *eventsv1.Event) {
	*out = eventsv1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance,
		Action:            e.Action, Reason: e.Reason, Regarding: e.InvolvedObject, Related: e.Related,
		Note: e.Message, Type: e.Type,
		DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
}

// toCoreV1 converts an event. The result shares memory with it.
//
//upstream:pkg/apis/events/v1.Convert_v1_Event_To_core_Event
func toCoreV1(e *eventsv1.Event, out *corev1.Event) {
	*out = corev1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance,
		Action:            e.Action, Reason: e.Reason, InvolvedObject: e.Regarding, Related: e.Related,
		Message: e.Note, Type: e.Type,
		Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp,
		LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
	}
	if s := e.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
}

// eventColumns are the columns of events in a table.
//
//upstream:pkg/printers/internalversion.AddHandlers
var eventColumns = []metav1.TableColumnDefinition{
	columns.Column("Last Seen", "string", corev1.Event{}.SwaggerDoc()["lastTimestamp"]),
	columns.Column("Type", "string", corev1.Event{}.SwaggerDoc()["type"]),
	columns.Column("Reason", "string", corev1.Event{}.SwaggerDoc()["reason"]),
	columns.Column("Object", "string", corev1.Event{}.SwaggerDoc()["involvedObject"]),
	columns.Wide("Subobject", "string", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]),
	columns.Wide("Source", "string", corev1.Event{}.SwaggerDoc()["source"]),
	columns.Column("Message", "string", corev1.Event{}.SwaggerDoc()["message"]),
	columns.Wide("First Seen", "string", corev1.Event{}.SwaggerDoc()["firstTimestamp"]),
	columns.Wide("Count", "string", corev1.Event{}.SwaggerDoc()["count"]),
	{Name: "Name", Type: "string", Format: "name", Priority: 1, Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
}

// eventRow returns the cells of an event in a table.
//
//upstream:pkg/printers/internalversion.printEvent
//upstream:pkg/printers/internalversion.formatEventSourceComponentInstance
func eventRow(e *corev1.Event) []any {
	first, last, count := e.FirstTimestamp.Time, e.LastTimestamp.Time, int64(e.Count)
	if e.FirstTimestamp.IsZero() {
		first = e.EventTime.Time
	}
	if last.IsZero() {
		last = first
	}
	if e.Series != nil {
		last, count = e.Series.LastObservedTime.Time, int64(e.Series.Count)
	} else if count == 0 {
		count = 1
	}
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	if host := e.Source.Host; host != "" {
		source += ", " + host
	} else if e.ReportingInstance != "" {
		source += ", " + e.ReportingInstance
	}
	about := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		about = fmt.Sprintf("%s/%s", about, e.InvolvedObject.Name)
	}
	return []any{ago(last), e.Type, e.Reason, about, e.InvolvedObject.FieldPath, source,
		strings.TrimSpace(e.Message), ago(first), count, e.Name}
}

// ago returns the time since t as a cell of a table.
//
//upstream:pkg/printers/internalversion.translateTimestampSince
//upstream:pkg/printers/internalversion.translateMicroTimestampSince
func ago(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t))
}
