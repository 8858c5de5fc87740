package controllers

import (
	"context"
	"errors"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/recorder"
)

// The rate limit of the events that one component records. Events above it are dropped, as by kubelet, so
// that a flood of pods is not slowed down by its own events.
const (
	eventsPerSecond = 100
	eventsBurst     = 400
)

// supervised is the manager that is passed to one loop: it reports the failure of the loop's runnables to
// Options.OnFailure, and limits the rate of the loop's events.
type supervised struct {
	manager.Manager
	loop    string
	options Options
}

func newSupervised(mgr manager.Manager, loop string, o Options) manager.Manager {
	return &supervised{mgr, loop, o}
}

// GetControllerOptions lets several managers in one process have the same loops.
func (s *supervised) GetControllerOptions() config.Controller {
	o := s.Manager.GetControllerOptions()
	o.SkipNameValidation = ptr.To(true)
	return o
}

func (s *supervised) Add(r manager.Runnable) error {
	if s.options.OnFailure != nil {
		r = &watched{r, s}
	}
	return s.Manager.Add(r)
}

// watched is a runnable of a loop. Its error is passed to OnFailure and does not stop the manager.
type watched struct {
	manager.Runnable
	of *supervised
}

func (w *watched) Start(ctx context.Context) error {
	if err := w.Runnable.Start(ctx); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		w.of.options.OnFailure(w.of.loop, err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable, as the runnable itself does.
func (w *watched) NeedLeaderElection() bool {
	r, ok := w.Runnable.(manager.LeaderElectionRunnable)
	return !ok || r.NeedLeaderElection()
}

func (s *supervised) GetEventRecorderFor(name string) record.EventRecorder {
	if s.options.WithoutEvents {
		return &coreRecorder{allow: never}
	}
	return &coreRecorder{s.Manager.GetEventRecorderFor(name), bounded()}
}

func (s *supervised) GetEventRecorder(name string) recorder.EventRecorder {
	if s.options.WithoutEvents {
		return &eventsRecorder{allow: never}
	}
	return &eventsRecorder{s.Manager.GetEventRecorder(name), bounded()}
}

func never() bool { return false }

func bounded() func() bool { return rate.NewLimiter(eventsPerSecond, eventsBurst).Allow }

// coreRecorder records the core events that are within the rate limit.
type coreRecorder struct {
	to    record.EventRecorder
	allow func() bool
}

func (r *coreRecorder) Event(object runtime.Object, eventtype, reason, message string) {
	if r.allow() {
		r.to.Event(object, eventtype, reason, message)
	}
}

func (r *coreRecorder) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	if r.allow() {
		r.to.Eventf(object, eventtype, reason, format, args...)
	}
}

func (r *coreRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any) {
	if r.allow() {
		r.to.AnnotatedEventf(object, annotations, eventtype, reason, format, args...)
	}
}

// eventsRecorder is the same for events of the events.k8s.io API.
type eventsRecorder struct {
	to    recorder.EventRecorder
	allow func() bool
}

func (r *eventsRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if r.allow() {
		r.to.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}

func (r *eventsRecorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, eventtype, reason, action, note string, args ...any) {
	if r.allow() {
		r.to.AnnotatedEventf(regarding, related, annotations, eventtype, reason, action, note, args...)
	}
}
