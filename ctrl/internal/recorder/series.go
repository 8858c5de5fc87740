package recorder

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// The series of events follow client-go's package events: its getKey, recordToSink and
// finishSeries. Unlike there, a series is written when it ends, and not at the next of fixed times, and
// the memory is bounded.
const (
	// seriesEnd is how long after its last event a series ends, and seriesRefresh how often one that
	// goes on is written, before it expires on the server.
	seriesEnd, seriesRefresh = 6 * time.Minute, 30 * time.Minute
	// maxSeries is how many series may be running, and how many counts may wait to be written. One more
	// series ends another one. One more count drops the oldest one.
	maxSeries = 4096
	// minRetry is the delay after the first write of a count that has failed. It doubles with each, up
	// to maxRetry.
	minRetry, maxRetry = time.Second, time.Minute
)

// series aggregates events into series. It is not safe for concurrent use.
type series struct {
	running map[seriesKey]*runningSeries
	// due are the series to write, the oldest first. They are running or have ended.
	due []*runningSeries
	// failures counts the consecutive writes that have failed; the next one is not before retry.
	failures int
	retry    time.Time
	// sweeping is when series end or become due next, zero if none is running.
	sweeping time.Time
	// timer fires at a time, if it is armed.
	timer *time.Timer
	at    time.Time
	armed bool
	// dropped is called with an event if its count will not be written.
	dropped func(*eventsv1.Event)
}

// runningSeries is an event and those that followed it.
type runningSeries struct {
	event   *eventsv1.Event
	last    time.Time // when the last event was recorded
	written time.Time // when the event or the series was written
	pending bool      // whether events were counted since
	due     bool      // whether it is in series.due
}

func newSeries(dropped func(*eventsv1.Event)) *series {
	return &series{running: map[seriesKey]*runningSeries{}, dropped: dropped}
}

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

// add counts an event, and reports whether it is the first one of a series, which is to be created. With
// the second one the series becomes due; further ones are counted only.
func (s *series) add(event *eventsv1.Event) (first bool) {
	key, now := keyOf(event), event.EventTime.Time
	r := s.running[key]
	if r != nil && now.Sub(r.last) >= seriesEnd {
		s.end(key, r)
		r = nil
	}
	if r == nil {
		if len(s.running) >= maxSeries {
			s.endOne()
		}
		s.running[key] = &runningSeries{event: event, last: now, written: now}
		if s.sweeping.IsZero() {
			s.sweeping = now.Add(seriesEnd)
		}
		return true
	}
	r.last, r.pending = now, true
	if r.event.Series == nil {
		r.event.Series = &eventsv1.EventSeries{Count: 1}
		s.enqueue(r)
	}
	r.event.Series.Count++
	r.event.Series.LastObservedTime = event.EventTime
	return false
}

// end ends a series. Its count is due if it is not written yet.
func (s *series) end(key seriesKey, r *runningSeries) {
	delete(s.running, key)
	if r.pending {
		s.enqueue(r)
	}
}

func (s *series) endOne() {
	for key, r := range s.running {
		s.end(key, r)
		return
	}
}

// enqueue makes a series due.
func (s *series) enqueue(r *runningSeries) {
	if r.due {
		return
	}
	if len(s.due) >= maxSeries {
		s.dropped(s.due[0].event)
		s.shift()
	}
	r.due = true
	s.due = append(s.due, r)
}

// shift removes the first series that is due.
func (s *series) shift() {
	s.due[0].due = false
	s.due[0] = nil
	s.due = s.due[1:]
}

// sweep ends the series that are over, and makes those due that were not written for long. It is to be
// called when fires has fired.
func (s *series) sweep(now time.Time) {
	s.armed = false
	if s.sweeping.IsZero() || now.Before(s.sweeping) {
		return
	}
	next := seriesRefresh
	for key, r := range s.running {
		if now.Sub(r.last) >= seriesEnd {
			s.end(key, r)
			continue
		}
		if r.pending && now.Sub(r.written) >= seriesRefresh {
			s.enqueue(r)
		}
		next = min(next, seriesEnd-now.Sub(r.last))
	}
	s.sweeping = time.Time{}
	if len(s.running) > 0 {
		s.sweeping = now.Add(next)
	}
}

// sweepAll ends all series.
func (s *series) sweepAll() {
	for key, r := range s.running {
		s.end(key, r)
	}
}

// next returns the event of the first series that is due, if it may be written now.
func (s *series) next(now time.Time) (*eventsv1.Event, bool) {
	if len(s.due) == 0 || now.Before(s.retry) {
		return nil, false
	}
	return s.due[0].event, true
}

// written records that the first series that is due was written, or that the write has failed and is
// to be retried.
func (s *series) written(now time.Time, failed bool) {
	if failed {
		s.retry = now.Add(min(minRetry<<min(s.failures, 6), maxRetry))
		s.failures++
		s.due = append(s.due[1:], s.due[0]) // the server may refuse this one only
		return
	}
	s.failures, s.retry = 0, time.Time{}
	s.due[0].written, s.due[0].pending = now, false
	s.shift()
}

// fires returns a channel that receives when series are to be swept or written, nil if there are none.
func (s *series) fires() <-chan time.Time {
	at := s.sweeping
	if len(s.due) > 0 && (at.IsZero() || s.retry.Before(at)) {
		at = s.retry
	}
	switch {
	case len(s.running)+len(s.due) == 0:
		return nil
	case s.timer == nil:
		s.timer = time.NewTimer(time.Until(at))
	case !s.armed || !at.Equal(s.at):
		s.timer.Reset(time.Until(at))
	}
	s.at, s.armed = at, true
	return s.timer.C
}
