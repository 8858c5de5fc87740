package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"

	"flyball.dev/ctrl/internal/observe"
)

const (
	// reporter is the controller that the Events of acts name.
	reporter = "flyball-console"
	// maxNote, maxRequest and maxUser are the maximum lengths, in bytes, of a note, and of the request and the user in the note. The
	// API permits 1,024 bytes. The rest is for the name of the controller.
	maxNote, maxRequest, maxUser = 1000, 300, 200
	// auditTimeout is the maximum time for the Event of an act; a manager that stops waits as long. auditInterval is the time between
	// two attempts.
	auditTimeout, auditInterval = 2 * time.Second, 100 * time.Millisecond
)

// act serves a request to change something: act is pause, resume, now, forget or level.
func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "The form cannot be read: "+err.Error())
		return
	}
	if !c.isForm(r) {
		c.refuse(w, r, http.StatusForbidden, "The form is of another console, or of an earlier start of this one. Load the page again.")
		return
	}
	done, err := c.do(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if isAPI(r) {
		writeJSON(w, http.StatusOK, map[string]string{"done": done})
		return
	}
	http.Redirect(w, r, local(r.PostFormValue("back")), http.StatusSeeOther)
}

// do carries out an act and records the act. It returns a sentence about the act.
func (c *Console) do(r *http.Request) (string, error) {
	act, name, request := r.PostFormValue("act"), r.PostFormValue("controller"), r.PostFormValue("request")
	if act == "level" {
		level, err := number(r, "level", -1)
		if err != nil || level < 0 || level > 10 {
			return "", &pageError{http.StatusBadRequest, "The level of the log must be from 0 to 10."}
		}
		c.recorder.SetLevel(level)
		return c.audit(r, "LogLevelChanged", "ChangeLogLevel", nil, "", fmt.Sprintf("recording log lines up to level %d", level)), nil
	}
	observed, err := c.controller(name)
	if err != nil {
		return "", err
	}
	var reason, done string
	switch act {
	case "pause":
		err, reason, done = observed.Pause(request), "Paused", "paused"
	case "resume":
		err, reason, done = observed.Resume(request), "Resumed", "resumed"
	case "now", "forget":
		if request == "" {
			return "", &pageError{http.StatusBadRequest, "The act needs a request."}
		}
		if act == "now" {
			err, reason, done = observed.Now(request), "ReconcileRequested", "reconciling now"
		} else {
			err, reason, done = observed.Forget(request), "BackoffDropped", "dropped the backoff of"
		}
	default:
		return "", &pageError{http.StatusBadRequest, fmt.Sprintf("There is no act %q.", clip(act, 100))}
	}
	if err != nil {
		return "", &pageError{http.StatusBadRequest, err.Error()}
	}
	what := "controller " + name
	if request != "" {
		what = "request " + clip(request, maxRequest) + " of " + what
	}
	return c.audit(r, reason, reason, observed, request, done+" "+what), nil
}

// audit records an act: in the log of the program, and as an Event about the object that the request names. The Event is about the
// controller if there is no such object, or if the server refuses the Event: the namespace of the object may be gone or terminate, or
// the operator may create no Events there. The Event is not part of a series, as an Event of a recorder may be, so each act has an Event
// and a line in the audit log of the API server.
func (c *Console) audit(r *http.Request, reason, action string, observed *observe.Controller, request, done string) string {
	c.recorder.Changed()
	user, logger := clip(c.user(r), maxUser), c.manager.GetLogger().WithName("console")
	host, _ := os.Hostname()
	logger.Info("An act in the console", "act", done, "user", user)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(reporter + "-" + reason + "-" + rand.Text())},
		EventTime:  metav1.NowMicro(), ReportingController: reporter, ReportingInstance: clip(reporter+"-"+host, 120),
		Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: clip(user+": "+done, maxNote),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), c.auditTimeout) // the act is done, even if the browser has gone
	defer cancel()
	regarding := corev1.ObjectReference{APIVersion: "flyball.dev/v1", Kind: "Manager", Name: "console"}
	if observed != nil {
		regarding.Kind, regarding.Name = "Controller", observed.ControllerName()
	}
	var err error
	object, named := c.reference(ctx, observed, request)
	if named {
		err = c.record(ctx, event, object)
	}
	if !named || refused(err) {
		err = c.record(ctx, event, regarding)
	}
	if err != nil {
		logger.Error(err, "The act is not recorded as an Event", "act", done, "user", user)
	}
	return done
}

// reference refers to the object that a request names, with its UID if the operator can read it: kubectl describe looks for the UID.
func (c *Console) reference(ctx context.Context, observed *observe.Controller, request string) (ref corev1.ObjectReference, ok bool) {
	if observed == nil || request == "" || observed.Kind().Kind == "" {
		return ref, false
	}
	gvk, key := observed.Kind(), parseName(request)
	key.Name = clip(key.Name, validation.DNS1123SubdomainMaxLength)
	if key.Namespace != "" && len(validation.IsDNS1123Label(key.Namespace)) > 0 {
		return ref, false
	}
	ref = corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: key.Namespace, Name: key.Name}
	var object metav1.PartialObjectMetadata
	object.SetGroupVersionKind(gvk)
	if c.manager.GetAPIReader().Get(ctx, key, &object) == nil {
		ref.UID = object.UID
	}
	return ref, true
}

// record creates an Event about an object. It tries again while the server does not answer.
func (c *Console) record(ctx context.Context, event *eventsv1.Event, about corev1.ObjectReference) (err error) {
	event.Regarding, event.Namespace = about, cmp.Or(about.Namespace, metav1.NamespaceDefault)
	_ = wait.PollUntilContextCancel(ctx, auditInterval, true, func(ctx context.Context) (bool, error) {
		err = c.events.Create(ctx, event)
		return err == nil || refused(err), nil
	})
	if apierrors.IsAlreadyExists(err) { // the name is random, so an attempt without an answer has created it
		return nil
	}
	return err
}

// refused reports whether the server has answered with an error.
func refused(err error) bool { return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown }
