package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"flyball.dev/plan"
	"flyball.dev/record"
)

// TestBetweenIntegers: integers that are the same as float64 differ.
func TestBetweenIntegers(t *testing.T) {
	moment := func(size int64) *record.Moment {
		m := record.NewMoment(record.Header{})
		m.Objects[record.Key{Group: "example.com", Resource: "widgets", Namespace: "default", Name: "a"}] = json.RawMessage(fmt.Sprintf(
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"default","name":"a","uid":"1"},"spec":{"size":%d}}`, size))
		return m
	}
	changes, err := plan.Between(moment(9007199254740992), moment(9007199254740993), time.Now())
	if err != nil || len(changes) != 1 || len(changes[0].Fields) != 1 || changes[0].Fields[0].String() != "9007199254740992 → 9007199254740993" {
		t.Errorf("%+v, %v", changes, err)
	}
}
