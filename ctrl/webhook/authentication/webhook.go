package authentication

import (
	"context"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/klog/v2"

	logf "flyball.dev/ctrl/log"
)

// Request is a token that is to be reviewed.
type Request struct {
	authenticationv1.TokenReview
}

// Response is a reviewed token: its status has the user that the token belongs to.
type Response struct {
	authenticationv1.TokenReview
}

// Complete sets the UID of r to the UID of req. The error is always nil; controller-runtime has it.
func (r *Response) Complete(req Request) error {
	r.UID = req.UID
	return nil
}

// Handler reviews tokens. It must be safe for concurrent use.
type Handler interface {
	// Handle reviews a token. The context comes from the HTTP request.
	Handle(context.Context, Request) Response
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(context.Context, Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, req Request) Response { return f(ctx, req) }

// Webhook serves token reviews over HTTP. Its fields must not be changed once it serves.
type Webhook struct {
	// Handler reviews the tokens. It is required.
	Handler Handler

	// WithContextFunc returns the context that the handler gets, made of the HTTP request's context. It
	// can add what the handler needs to know of the HTTP request, such as headers.
	WithContextFunc func(context.Context, *http.Request) context.Context

	setLog sync.Once
	log    logr.Logger
}

// Handle passes req to the handler and completes the response. Panics are not recovered.
func (wh *Webhook) Handle(ctx context.Context, req Request) Response {
	response := wh.Handler.Handle(ctx, req)
	_ = response.Complete(req) // it never fails
	return response
}

// getLogger returns the logger for req, or the webhook's logger if req is nil.
func (wh *Webhook) getLogger(req *Request) logr.Logger {
	wh.setLog.Do(func() {
		if wh.log.GetSink() == nil {
			wh.log = logf.Current().WithName("authentication")
		}
	})
	if req == nil {
		return wh.log
	}
	return wh.log.WithValues(
		"object", klog.KRef(req.Namespace, req.Name), "namespace", req.Namespace, "name", req.Name,
		"user", req.Status.User.Username, "requestID", req.UID)
}
