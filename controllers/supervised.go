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

// The rate limit of the events of one recorder. Events above it are dropped, as by kubelet, so that
// many pods at once are not delayed by their events.
const (
	eventsPerSecond = 100
	eventsBurst     = 400
)

// supervisedManager is the manager for one controller: it passes the errors of the controller's
// runnables to Options.OnFailure, and limits the rate of its events.
type supervisedManager struct {
	manager.Manager
	controller string
	options    Options
}

func newSupervisedManager(mgr manager.Manager, controller string, o Options) manager.Manager {
	return &supervisedManager{mgr, controller, o}
}

// GetControllerOptions allows the same names of controllers in several managers of one process.
func (s *supervisedManager) GetControllerOptions() config.Controller {
	o := s.Manager.GetControllerOptions()
	o.SkipNameValidation = ptr.To(true)
	return o
}

// WrappedManager returns the manager, which may have a console.
func (s *supervisedManager) WrappedManager() manager.Manager { return s.Manager }

// Add adds a runnable.
func (s *supervisedManager) Add(r manager.Runnable) error {
	if s.options.OnFailure != nil {
		r = &supervisedRunnable{r, s}
	}
	return s.Manager.Add(r)
}

// supervisedRunnable is a runnable of a controller. It passes its error to OnFailure instead of the
// manager.
type supervisedRunnable struct {
	manager.Runnable
	manager *supervisedManager
}

// Start implements manager.Runnable.
func (s *supervisedRunnable) Start(ctx context.Context) error {
	if err := s.Runnable.Start(ctx); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		s.manager.options.OnFailure(s.manager.controller, err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable, as the runnable itself does.
func (s *supervisedRunnable) NeedLeaderElection() bool {
	r, ok := s.Runnable.(manager.LeaderElectionRunnable)
	return !ok || r.NeedLeaderElection()
}

// GetEventRecorderFor returns a rate-limited recorder of core events.
func (s *supervisedManager) GetEventRecorderFor(name string) record.EventRecorder {
	if s.options.WithoutEvents {
		return &limitedRecorder{allow: never}
	}
	//lint:ignore SA1019 it implements the deprecated method
	return &limitedRecorder{s.Manager.GetEventRecorderFor(name), newEventLimiter()}
}

// GetEventRecorder returns a rate-limited recorder of events of the events.k8s.io API.
func (s *supervisedManager) GetEventRecorder(name string) recorder.EventRecorder {
	if s.options.WithoutEvents {
		return &limitedEventRecorder{allow: never}
	}
	return &limitedEventRecorder{s.Manager.GetEventRecorder(name), newEventLimiter()}
}

func never() bool { return false }

// newEventLimiter returns a function that reports whether another event may be recorded.
func newEventLimiter() func() bool { return rate.NewLimiter(eventsPerSecond, eventsBurst).Allow }

// limitedRecorder records core events within a rate limit.
type limitedRecorder struct {
	to    record.EventRecorder
	allow func() bool
}

func (r *limitedRecorder) Event(object runtime.Object, eventtype, reason, message string) {
	if r.allow() {
		r.to.Event(object, eventtype, reason, message)
	}
}

func (r *limitedRecorder) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	if r.allow() {
		r.to.Eventf(object, eventtype, reason, format, args...)
	}
}

func (r *limitedRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason,
	format string, args ...any) {
	if r.allow() {
		r.to.AnnotatedEventf(object, annotations, eventtype, reason, format, args...)
	}
}

// limitedEventRecorder records events of the events.k8s.io API within a rate limit.
type limitedEventRecorder struct {
	to    recorder.EventRecorder
	allow func() bool
}

func (r *limitedEventRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string,
	args ...any) {
	if r.allow() {
		r.to.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}

func (r *limitedEventRecorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string,
	eventtype, reason, action, note string, args ...any) {
	if r.allow() {
		r.to.AnnotatedEventf(regarding, related, annotations, eventtype, reason, action, note, args...)
	}
}
