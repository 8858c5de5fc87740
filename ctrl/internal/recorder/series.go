package recorder

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// The series of events are those of client-go's package events: its getKey, recordToSink and
// finishSeries. Unlike there, a series is written when it ends, and not at the next of fixed times, and
// the memory is bounded.
const (
	// seriesEnd is how long after its last event a series ends, and seriesRefresh how often one that
	// goes on is written, before it expires on the server.
	seriesEnd, seriesRefresh = 6 * time.Minute, 30 * time.Minute
	// maxSeries is how many series may be running. One more ends another one, whose count is lost.
	maxSeries = 4096
)

// series aggregates events into series. It is not safe for concurrent use.
type series struct {
	running map[seriesKey]*runningSeries
	// due fires when a series ends or is to be written. It is nil if there is none.
	due *time.Timer
}

// runningSeries is an event and those that followed it.
type runningSeries struct {
	event   *eventsv1.Event
	last    time.Time // when the last event was recorded
	written time.Time // when the event or the series was written
	pending bool      // whether events were counted since
}

func newSeries() *series { return &series{running: map[seriesKey]*runningSeries{}} }

// seriesKey is what the events of a series have in common.
type seriesKey struct {
	controller, instance string
	regarding, related   corev1.ObjectReference
	typ, reason, action  string
}

func keyOf(event *eventsv1.Event) seriesKey {
	key := seriesKey{
		controller: event.ReportingController, instance: event.ReportingInstance, regarding: event.Regarding,
		typ: event.Type, reason: event.Reason, action: event.Action,
	}
	if event.Related != nil {
		key.related = *event.Related
	}
	return key
}

// add returns the event to write, and how to write it: the first event of a series is created, the
// second one begins the series, and further ones are counted only.
func (s *series) add(event *eventsv1.Event) (*eventsv1.Event, step) {
	key, now := keyOf(event), event.EventTime.Time
	r := s.running[key]
	if r == nil || now.Sub(r.last) >= seriesEnd {
		if r == nil && len(s.running) >= maxSeries {
			s.dropOne()
		}
		s.running[key] = &runningSeries{event: event, last: now, written: now}
		s.wake(seriesEnd)
		return event, create
	}
	r.last = now
	if r.event.Series == nil {
		r.event.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: event.EventTime}
		r.written = now
		return r.event, patch
	}
	r.event.Series.Count++
	r.event.Series.LastObservedTime = event.EventTime
	r.pending = true
	return nil, skip
}

func (s *series) dropOne() {
	for key := range s.running {
		delete(s.running, key)
		return
	}
}

// wake has due fire after a time, unless it fires before.
func (s *series) wake(after time.Duration) {
	if s.due == nil {
		s.due = time.NewTimer(after)
	}
}

// fires returns the channel of due, which is nil if there is no series.
func (s *series) fires() <-chan time.Time {
	if s.due == nil {
		return nil
	}
	return s.due.C
}

// sweep ends the series that are over. It returns the events whose series are to be written.
func (s *series) sweep(now time.Time) (changed []*eventsv1.Event) {
	s.due = nil
	next := seriesRefresh
	for key, r := range s.running {
		over := now.Sub(r.last) >= seriesEnd
		if r.pending && (over || now.Sub(r.written) >= seriesRefresh) {
			changed = append(changed, r.event)
			r.written, r.pending = now, false
		}
		if over {
			delete(s.running, key)
			continue
		}
		next = min(next, seriesEnd-now.Sub(r.last))
	}
	if len(s.running) > 0 {
		s.wake(next)
	}
	return changed
}
