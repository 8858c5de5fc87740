package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	logf "flyball.dev/ctrl/log"
	admissionmetrics "flyball.dev/ctrl/webhook/admission/metrics"
	"flyball.dev/ctrl/webhook/internal/metrics"
)

var errUnableToEncodeResponse = errors.New("unable to encode response")

// Request is an admission request: the operation, its objects, and the user who makes it.
type Request struct {
	admissionv1.AdmissionRequest
}

// Response is the answer to a request.
type Response struct {
	// Patches change the object. Unless they are empty, Complete encodes them into the fields Patch
	// and PatchType of the AdmissionResponse and overwrites what these had.
	Patches []jsonpatch.JsonPatchOperation
	// AdmissionResponse is sent to the API server.
	admissionv1.AdmissionResponse
}

// Complete sets the missing fields of r: the UID of req, the status code 200, and the encoded
// patches. It returns an error if the patches cannot be encoded.
func (r *Response) Complete(req Request) error {
	r.UID = req.UID
	if r.Result == nil {
		r.Result = &metav1.Status{}
	}
	if r.Result.Code == 0 {
		r.Result.Code = http.StatusOK
	}
	if len(r.Patches) == 0 {
		return nil
	}
	patch, err := json.Marshal(r.Patches)
	if err != nil {
		return err
	}
	r.Patch, r.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	return nil
}

// Handler answers admission requests. It must be safe for concurrent use.
type Handler interface {
	// Handle answers a request. The context comes from the HTTP request, with a logger that names the
	// admission request.
	Handle(context.Context, Request) Response
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(context.Context, Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, req Request) Response { return f(ctx, req) }

// Webhook serves the reviews of one webhook over HTTP. Its fields must not be changed once it
// serves.
type Webhook struct {
	// Handler answers the requests. It is required.
	Handler Handler

	// RecoverPanic turns a panic of the handler into a response with the code 500. True if nil.
	RecoverPanic *bool

	// WithContextFunc returns the context that the handler gets, made of the HTTP request's context. It
	// can add what the handler needs to know of the HTTP request, such as headers.
	WithContextFunc func(context.Context, *http.Request) context.Context

	// LogConstructor returns the logger for a request, made of the logger of the webhook.
	// [DefaultLogConstructor] if nil. The request is nil outside of requests.
	LogConstructor func(base logr.Logger, req *Request) logr.Logger

	setLog sync.Once
	log    logr.Logger
}

// WithRecoverPanic sets RecoverPanic and returns wh.
func (wh *Webhook) WithRecoverPanic(recoverPanic bool) *Webhook {
	wh.RecoverPanic = &recoverPanic
	return wh
}

// Handle passes req to the handler and completes the response. A panic is counted, and recovered as
// RecoverPanic says.
func (wh *Webhook) Handle(ctx context.Context, req Request) (response Response) {
	return wh.handle(ctx, req, wh.getLogger(&req))
}

func (wh *Webhook) handle(ctx context.Context, req Request, logger logr.Logger) (response Response) {
	ctx = logf.IntoContext(ctx, logger)
	defer func() {
		if reason := recover(); reason != nil {
			response = wh.recovered(ctx, req, reason)
		}
	}()
	response = wh.Handler.Handle(ctx, req)
	if err := response.Complete(req); err != nil {
		logger.Error(err, "Unable to encode the response")
		return failed(req, errUnableToEncodeResponse)
	}
	return response
}

// recovered counts a panic and answers req, or panics again unless panics are to be recovered.
func (wh *Webhook) recovered(ctx context.Context, req Request, reason any) Response {
	admissionmetrics.WebhookPanics.WithLabelValues().Inc()
	if !ptr.Deref(wh.RecoverPanic, true) {
		logf.FromContext(ctx).Info(fmt.Sprintf("Observed a panic in webhook: %v", reason))
		panic(reason)
	}
	for _, handle := range utilruntime.PanicHandlers {
		handle(ctx, reason)
	}
	return failed(req, fmt.Errorf("panic: %v [recovered]", reason))
}

// failed returns the response to req if the webhook itself fails, with the code 500.
func failed(req Request, err error) Response {
	response := Errored(http.StatusInternalServerError, err)
	response.UID = req.UID
	return response
}

// getLogger returns the logger for req, or the webhook's logger if req is nil.
func (wh *Webhook) getLogger(req *Request) logr.Logger {
	wh.setLog.Do(func() {
		if wh.log.GetSink() == nil {
			wh.log = logf.Current().WithName("admission")
		}
	})
	construct := wh.LogConstructor
	if construct == nil {
		construct = DefaultLogConstructor
	}
	return construct(wh.log, req)
}

// DefaultLogConstructor adds the object, the resource, the user and the UID of req to base.
func DefaultLogConstructor(base logr.Logger, req *Request) logr.Logger {
	if req == nil {
		return base
	}
	return base.WithValues(
		"object", klog.KRef(req.Namespace, req.Name), "namespace", req.Namespace, "name", req.Name,
		"resource", req.Resource, "user", req.UserInfo.Username, "requestID", req.UID)
}

// StandaloneOptions are the options of a [StandaloneWebhook].
type StandaloneOptions struct {
	// Logger is the logger of the webhook, by default log.Log with the name admission.
	Logger logr.Logger
	// MetricsPath is the path in the metrics of the webhook. If empty, it is not measured.
	MetricsPath string
}

// StandaloneWebhook returns a handler that serves hook on any HTTP server. The API server calls
// webhooks over HTTPS only, which is then the business of that server.
func StandaloneWebhook(hook *Webhook, opts StandaloneOptions) (http.Handler, error) {
	if opts.Logger.GetSink() != nil {
		hook.log = opts.Logger
	}
	if opts.MetricsPath == "" {
		return hook, nil
	}
	return metrics.InstrumentedHook(opts.MetricsPath, hook), nil
}

// requestKey is the context key of the request.
type requestKey struct{}

// RequestFromContext returns the request that a [Defaulter] or [Validator] is called for. It
// returns an error if ctx carries none.
func RequestFromContext(ctx context.Context) (Request, error) {
	if req, ok := ctx.Value(requestKey{}).(Request); ok {
		return req, nil
	}
	return Request{}, errors.New("admission.Request not found in context")
}

// NewContextWithRequest returns a context that carries req, for RequestFromContext.
func NewContextWithRequest(ctx context.Context, req Request) context.Context {
	return context.WithValue(ctx, requestKey{}, req)
}
