package plan

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/lab"
)

// TestMerge: what two runs have in common is certain, and nothing else.
func TestMerge(t *testing.T) {
	object := func(a Action, name string, object map[string]any) Change {
		return Change{Action: a, Kind: "ConfigMap", Name: name, Object: object}
	}
	perhaps := func(c Change) Change { c.Uncertain = true; return c }
	field := func(path string, before, after any) Field { return Field{Path: path, Before: before, After: after} }
	update := func(fields ...Field) Change {
		return Change{Action: Update, Kind: "ConfigMap", Name: "web", Fields: fields}
	}
	pod := func(owner, name string) Change {
		return Change{Action: Create, Kind: "Pod", Name: name, Owner: owner}
	}
	for name, tt := range map[string]struct{ first, second, want []Change }{
		"nothing":  {},
		"the same": {[]Change{object(Delete, "a", nil), object(Delete, "b", nil)}, []Change{object(Delete, "b", nil), object(Delete, "a", nil)}, []Change{object(Delete, "a", nil), object(Delete, "b", nil)}},
		"a value": {
			[]Change{object(Create, "a", map[string]any{"data": map[string]any{"x": "1", "same": "s", "gone": "g"}, "list": []any{"a", "b"}})},
			[]Change{object(Create, "a", map[string]any{"data": map[string]any{"x": "2", "same": "s"}, "list": []any{"a", "c"}})},
			[]Change{object(Create, "a", map[string]any{"data": map[string]any{"x": UnknownValue, "same": "s", "gone": UnknownValue}, "list": []any{"a", UnknownValue}})}},
		"lists of other lengths": {
			[]Change{object(Create, "a", map[string]any{"list": []any{"a", "b"}})}, []Change{object(Create, "a", map[string]any{"list": []any{"a"}})},
			[]Change{object(Create, "a", map[string]any{"list": UnknownValue})}},
		"fields": {
			[]Change{update(field("a", 1, 2), field("b", 1, 2), field("c", 1, nil))}, []Change{update(field("a", 1, 2), field("b", 1, 3), field("d", 1, nil))},
			[]Change{update(field("a", 1, 2), field("b", 1, UnknownValue), field("c", 1, UnknownValue), field("d", 1, UnknownValue))}},
		"only in the first":  {[]Change{object(Create, "a", nil)}, nil, []Change{perhaps(object(Create, "a", nil))}},
		"only in the second": {nil, []Change{object(Create, "a", nil)}, []Change{perhaps(object(Create, "a", nil))}},
		"another action":     {[]Change{object(Replace, "a", nil)}, []Change{object(Delete, "a", nil)}, []Change{perhaps(object(Replace, "a", nil)), perhaps(object(Delete, "a", nil))}},
		"names without anything in common": {[]Change{object(Create, "a", nil)}, []Change{object(Create, "b", nil)},
			[]Change{perhaps(object(Create, "a", nil)), perhaps(object(Create, "b", nil))}},
		"names that end in chance, of owners with such names": {
			[]Change{pod("Job/j", "web-x1"), pod("Pod/web-x1", "web-x1-a")}, []Change{pod("Job/j", "web-y2"), pod("Pod/web-y2", "web-y2-b")},
			[]Change{pod("Job/j", "web-*"), pod("Pod/web-*", "web-*")}},
		"other owners": {[]Change{pod("Job/j", "web-x1")}, []Change{pod("Job/k", "web-y2")}, []Change{perhaps(pod("Job/j", "web-x1")), perhaps(pod("Job/k", "web-y2"))}},
		"more of a generated name": {[]Change{pod("Job/j", "web-*")}, []Change{pod("Job/j", "web-*"), pod("Job/j", "web-*")},
			[]Change{pod("Job/j", "web-*"), perhaps(pod("Job/j", "web-*"))}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := merge(tt.first, tt.second); len(got)+len(tt.want) > 0 && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	p := &Plan{Changes: []Change{object(Replace, "a", nil), object(Create, "b", nil)}, Steps: []StepResult{{Name: "change"}}}
	p.merge(&Plan{Changes: []Change{object(Delete, "a", nil)}, Steps: []StepResult{{"change", "full", "Forbidden"}}, Refused: []Refusal{{Object: "pods/x"}}})
	var all []string
	for _, u := range append(p.Unknown, uncertain(p.Changes)...) {
		all = append(all, u.What+": "+u.Why)
	}
	text := strings.Join(all, "\n")
	if want := `change: the order of events decides, or chance, whether the API server refuses it: full
ConfigMap a: the order of events decides, or chance: delete or replace
ConfigMap b: the order of events decides, or chance: create or not`; text != want || len(p.Refused) != 1 {
		t.Errorf("%s\n%+v", text, p.Refused)
	}
	if got := p.Summary(); got != "0 to create, 0 to change, 0 to delete, and 3 perhaps." {
		t.Error(got)
	}
}

// TestOrder: of two writes with delays, each is the first in one of two runs, and a deletion is before and after several other writes.
// After a number of writes, a client has no delays.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := func(o *order, user, method, path string) time.Duration {
			began := time.Now()
			r, err := http.NewRequestWithContext(context.Background(), method, "http://host"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := o.wrap(user, served{}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return time.Since(began)
		}
		runs := []*order{newOrder(deletionsFirst, time.Minute), newOrder(deletionsLast, time.Minute)}
		var sooner [2]bool
		for i, o := range runs {
			a, b := took(o, "a", "PUT", "/x"), took(o, "b", "POST", "/y")
			sooner[i] = a < b
			deletion := took(o, "a", "DELETE", "/x")
			if i == 0 && deletion != 0 || i == 1 && deletion < 4*(a+b)/2 {
				t.Errorf("run %d: a deletion takes %v, and other writes %v and %v", i, deletion, a, b)
			}
			if get := took(o, "a", "GET", "/x"); get != 0 {
				t.Errorf("a read takes %v", get)
			}
			for range mostDelayed {
				took(o, "a", "PUT", "/x")
			}
			if d := took(o, "a", "PUT", "/x"); d != 0 {
				t.Errorf("a late write takes %v", d)
			}
		}
		if sooner[0] == sooner[1] {
			t.Error("one write is sooner in both runs")
		}
		if d := took(newOrder(everyAtOnce, time.Minute), "a", "DELETE", "/x"); d != 0 {
			t.Errorf("a write at once takes %v", d)
		}
	})
}

// served is a transport that answers at once.
type served struct{}

func (served) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// TestSingle: a plan with one run says so.
func TestSingle(t *testing.T) {
	program := Operator{Program: func(lab.Access) (lab.Running, error) { return nil, nil }}
	for _, tt := range []struct {
		o    Options
		want int
	}{{Options{}, 0}, {Options{Once: true}, 1}, {Options{Operator: program}, 1}, {Options{Operator: program, Once: true}, 1}} {
		if got := tt.o.single(); len(got) != tt.want {
			t.Errorf("%+v", got)
		}
	}
}
