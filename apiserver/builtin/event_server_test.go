package builtin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name}, EventTime: metav1.MicroTime{Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
		ReportingController: "example.com/op", ReportingInstance: "op-1", Action: "Start", Reason: "Started", Note: "up", Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", Namespace: "default", UID: "u", ResourceVersion: "7", FieldPath: "spec.containers{web}"},
	}
}

// causes returns the fields and messages of an error.
func causes(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return ""
	}
	var all []string
	for _, c := range status.Status().Details.Causes {
		all = append(all, c.Field+": "+c.Message)
	}
	return strings.Join(all, "\n")
}

func TestNewEventsMustBeComplete(t *testing.T) {
	ctx, client := serve(t)
	long := strings.Repeat("x", 1025)
	for name, tc := range map[string]struct {
		change func(e *eventsv1.Event)
		want   []string // parts of the causes
	}{
		"no time":       {func(e *eventsv1.Event) { e.EventTime = metav1.MicroTime{} }, []string{"eventTime: Required value"}},
		"no controller": {func(e *eventsv1.Event) { e.ReportingController = "" }, []string{"reportingController: Required value", "reportingController: Invalid value"}},
		"controller":    {func(e *eventsv1.Event) { e.ReportingController = "a b" }, []string{`reportingController: Invalid value: "a b"`}},
		"no instance":   {func(e *eventsv1.Event) { e.ReportingInstance = "" }, []string{"reportingInstance: Required value"}},
		"instance":      {func(e *eventsv1.Event) { e.ReportingInstance = long }, []string{"reportingInstance: Invalid value", "can have at most 128 characters"}},
		"no action":     {func(e *eventsv1.Event) { e.Action = "" }, []string{"action: Required value"}},
		"no reason":     {func(e *eventsv1.Event) { e.Reason = "" }, []string{"reason: Required value"}},
		"note":          {func(e *eventsv1.Event) { e.Note = long }, []string{"message: Invalid value", "can have at most 1024 characters"}},
		"no type":       {func(e *eventsv1.Event) { e.Type = "" }, []string{"type: Invalid value: \"\": has invalid value: "}},
		"type":          {func(e *eventsv1.Event) { e.Type = "Fatal" }, []string{"has invalid value: Fatal"}},
		"series":        {func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{Count: 1} }, []string{"series.count: Invalid value: \"\": should be at least 2", "series.lastObservedTime: Required value"}},
		"count":         {func(e *eventsv1.Event) { e.DeprecatedCount = 1 }, []string{"count: Invalid value: \"\": needs to be unset"}},
		"source":        {func(e *eventsv1.Event) { e.DeprecatedSource.Host = "h" }, []string{"source: Invalid value: \"\": needs to be unset"}},
		"first":         {func(e *eventsv1.Event) { e.DeprecatedFirstTimestamp = metav1.Now() }, []string{"firstTimestamp: Invalid value: \"\": needs to be unset"}},
		"last":          {func(e *eventsv1.Event) { e.DeprecatedLastTimestamp = metav1.Now() }, []string{"lastTimestamp: Invalid value: \"\": needs to be unset"}},
		"name":          {func(e *eventsv1.Event) { e.Name = "system:x" }, []string{"metadata.name: Invalid value"}},
	} {
		e := newEvent("new")
		tc.change(e)
		_, err := client.EventsV1().Events("default").Create(ctx, e, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want Invalid", name, err)
			continue
		}
		for _, part := range tc.want {
			if !strings.Contains(causes(err), part) {
				t.Errorf("%s: the causes %q do not contain %q", name, causes(err), part)
			}
		}
	}
	if all := must[*corev1.EventList](t)(client.CoreV1().Events("").List(ctx, metav1.ListOptions{})); len(all.Items) != 0 {
		t.Errorf("%d events were stored", len(all.Items))
	}
}

func TestCoreEventsNeedLess(t *testing.T) {
	ctx, client := serve(t)
	events := client.CoreV1().Events("default")
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "system:node:x.17ab"}, Reason: "Seen", Type: "Odd", Count: 4, Source: corev1.EventSource{Component: "tester"},
		InvolvedObject: corev1.ObjectReference{Kind: "Role", Name: "system:node:x", Namespace: "default"},
	}
	e = must[*corev1.Event](t)(events.Create(ctx, e, metav1.CreateOptions{}))
	e.Reason, e.Message = "Changed", "all of it"
	must[*corev1.Event](t)(events.Update(ctx, e, metav1.UpdateOptions{}))
	_, err := events.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "timed"}, EventTime: metav1.NowMicro(),
		InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "reportingComponent: Required value")
}

func TestOnlyTheSeriesOfANewEventChanges(t *testing.T) {
	ctx, client := serve(t)
	events := client.EventsV1().Events("default")
	made := must[*eventsv1.Event](t)(events.Create(ctx, newEvent("new"), metav1.CreateOptions{}))
	for field, change := range map[string]func(e *eventsv1.Event){
		"involvedObject":      func(e *eventsv1.Event) { e.Regarding.Name = "other" },
		"reason":              func(e *eventsv1.Event) { e.Reason = "Other" },
		"message":             func(e *eventsv1.Event) { e.Note = "other" },
		"source":              func(e *eventsv1.Event) { e.DeprecatedSource.Host = "other" },
		"firstTimestamp":      func(e *eventsv1.Event) { e.DeprecatedFirstTimestamp = metav1.Now() },
		"lastTimestamp":       func(e *eventsv1.Event) { e.DeprecatedLastTimestamp = metav1.Now() },
		"count":               func(e *eventsv1.Event) { e.DeprecatedCount = 2 },
		"type":                func(e *eventsv1.Event) { e.Type = corev1.EventTypeWarning },
		"eventTime":           func(e *eventsv1.Event) { e.EventTime = metav1.MicroTime{Time: e.EventTime.Add(time.Second)} },
		"action":              func(e *eventsv1.Event) { e.Action = "Other" },
		"related":             func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{Name: "other"} },
		"reportingController": func(e *eventsv1.Event) { e.ReportingController = "other" },
		"reportingInstance":   func(e *eventsv1.Event) { e.ReportingInstance = "other" },
		"series.count":        func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{LastObservedTime: metav1.NowMicro()} },
	} {
		e := made.DeepCopy()
		change(e)
		_, err := events.Update(ctx, e, metav1.UpdateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(causes(err), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	made.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
	made.Labels = map[string]string{"a": "b"}
	if made = must[*eventsv1.Event](t)(events.Update(ctx, made, metav1.UpdateOptions{})); made.Series.Count != 2 {
		t.Errorf("updated: %+v", made)
	}
}

func TestEventFieldSelectors(t *testing.T) {
	ctx, client := serve(t)
	must[*eventsv1.Event](t)(client.EventsV1().Events("default").Create(ctx, newEvent("new"), metav1.CreateOptions{}))
	must[*corev1.Event](t)(client.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "old"}, Reason: "Seen", Source: corev1.EventSource{Component: "tester"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n", Namespace: "default"},
	}, metav1.CreateOptions{}))
	for selector, want := range map[string]string{
		"regarding.kind=Pod": "new", "regarding.namespace=default": "new old", "regarding.name=web": "new", "regarding.uid=u": "new",
		"regarding.apiVersion=v1": "new", "regarding.resourceVersion=7": "new", "regarding.fieldPath=spec.containers{web}": "new",
		"reason=Seen": "old", "reportingController=example.com/op": "new", "reportingController=tester": "", "type=Normal": "new",
		"metadata.name=old": "old", "metadata.namespace=default": "new old",
		"involvedObject.kind=Pod": "error", "source=tester": "error", "reportingComponent=tester": "error", "note=up": "error",
	} {
		list, err := client.EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: selector})
		var names []string
		for _, e := range list.Items {
			names = append(names, e.Name)
		}
		expectNames(t, "events.k8s.io", selector, names, err, want)
	}
	for selector, want := range map[string]string{
		"involvedObject.kind=Pod": "new", "involvedObject.namespace=default": "new old", "involvedObject.name=n": "old", "involvedObject.uid=u": "new",
		"involvedObject.apiVersion=v1": "new", "involvedObject.resourceVersion=7": "new", "involvedObject.fieldPath=spec.containers{web}": "new",
		"reason=Seen": "old", "reportingComponent=example.com/op": "new", "reportingComponent=tester": "",
		"source=tester": "old", "source=example.com/op": "new", "type=Normal": "new",
		"regarding.kind=Pod": "error", "reportingController=tester": "error",
	} {
		list, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: selector})
		var names []string
		for _, e := range list.Items {
			names = append(names, e.Name)
		}
		expectNames(t, "core", selector, names, err, want)
	}
}

func expectNames(t *testing.T, group, selector string, names []string, err error, want string) {
	t.Helper()
	got := strings.Join(names, " ")
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "field label not supported") {
		got = "error"
	} else if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %s: got %q, want %q", group, selector, got, want)
	}
}

func TestEventsAreTheSameInBothGroups(t *testing.T) {
	ctx, client := serve(t)
	old := must[*corev1.Event](t)(client.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "old"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web", Namespace: "default"},
		Reason:         "Started", Message: "up", Type: corev1.EventTypeNormal, Count: 3,
		Source: corev1.EventSource{Component: "tester"},
	}, metav1.CreateOptions{}))
	seen := must[*eventsv1.Event](t)(client.EventsV1().Events("default").Get(ctx, "old", metav1.GetOptions{}))
	if seen.Note != "up" || seen.Regarding.Name != "web" || seen.DeprecatedCount != 3 || seen.DeprecatedSource.Component != "tester" || seen.UID != old.UID {
		t.Errorf("in events.k8s.io: %+v", seen)
	}
	must[*eventsv1.Event](t)(client.EventsV1().Events("default").Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/op", ReportingInstance: "op-1",
		Action: "Start", Reason: "Started", Note: "also up", Type: corev1.EventTypeNormal, Regarding: corev1.ObjectReference{Kind: "Pod", Name: "web", Namespace: "default"},
	}, metav1.CreateOptions{}))
	list := must[*corev1.EventList](t)(client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=Started"}))
	if len(list.Items) != 2 {
		t.Fatalf("%d events", len(list.Items))
	}
	other := must[*eventsv1.EventList](t)(client.EventsV1().Events("default").List(ctx, metav1.ListOptions{}))
	if len(other.Items) != 2 || other.Items[0].Regarding.Name != "web" {
		t.Errorf("listed in events.k8s.io: %+v", other.Items)
	}
	_, err := client.EventsV1().Events("default").Create(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, EventTime: metav1.NowMicro(),
		Regarding: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "reportingController: Required value", "action: Required value", "reason: Required value")
}
