package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/internal/observe"
)

const (
	// reporter is the controller that the Events of acts name.
	reporter = "flyball-console"
	maxNote  = 1000 // the API permits 1,024 bytes
)

// act serves a request to change something: act is pause, resume, now, forget or level.
func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "The form cannot be read: "+err.Error())
		return
	}
	if !c.isForm(r) {
		c.refuse(w, r, http.StatusForbidden, "The form is not of this console, or of an earlier start. Load the page again.")
		return
	}
	done, err := c.do(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.recorder.Changed()
	if isAPI(r) {
		writeJSON(w, http.StatusOK, map[string]string{"done": done})
		return
	}
	http.Redirect(w, r, local(r.PostFormValue("back")), http.StatusSeeOther)
}

// do acts, and records an event of it. It returns what was done.
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
		what = "request " + request + " of " + what
	}
	return c.audit(r, reason, reason, observed, request, done+" "+what), nil
}

// audit records an act: as an Event of the object that the request names, or else of the controller, and in the log of the program. The
// Event is no part of a series, as a recorder's may be, so that each act has an Event and a line in the audit log of the API server.
func (c *Console) audit(r *http.Request, reason, action string, observed *observe.Controller, request, done string) string {
	regarding := corev1.ObjectReference{APIVersion: "flyball.dev/v1", Kind: "Manager", Name: "console"}
	if observed != nil {
		regarding.Kind, regarding.Name = "Controller", observed.ControllerName()
		if gvk := observed.Kind(); request != "" && gvk.Kind != "" {
			key := parseName(request)
			regarding = corev1.ObjectReference{Kind: gvk.Kind, Namespace: key.Namespace, Name: key.Name}
			regarding.APIVersion = gvk.GroupVersion().String()
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout) // the act is done, even if the browser has gone
	defer cancel()
	user, logger := c.user(r), c.manager.GetLogger().WithName("console")
	host, _ := os.Hostname()
	logger.Info("An act in the console", "act", done, "user", user)
	err := c.events.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(regarding.Namespace, metav1.NamespaceDefault),
			Name:      strings.ToLower(reporter + "-" + reason + "-" + rand.Text()),
		},
		EventTime: metav1.NowMicro(), ReportingController: reporter, ReportingInstance: clip(reporter+"-"+host, 120),
		Type: corev1.EventTypeNormal, Reason: reason, Action: action, Regarding: regarding, Note: clip(user+": "+done, maxNote),
	})
	if err != nil {
		logger.Error(err, "The act is not recorded as an Event", "act", done, "user", user)
	}
	return done
}
