package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	logf "flyball.dev/ctrl/log"
	"flyball.dev/ctrl/webhook/admission/metrics"
	webhookmetrics "flyball.dev/ctrl/webhook/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handler(f func(context.Context, Request) Response) *Webhook {
	return &Webhook{Handler: HandlerFunc(f)}
}

var allow = handler(func(context.Context, Request) Response { return Allowed("") })

// post sends a review to hook and returns the body of the response.
func post(t *testing.T, hook http.Handler, body string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("the HTTP status is %d", w.Code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("the content type is %q", got)
	}
	return w.Body.String()
}

const reviewV1 = `"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"`

func TestServeHTTP(t *testing.T) {
	const reviewV1beta1 = `"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"`
	const request = `"request":{"uid":"u1","operation":"CREATE","name":"n","object":{}}`
	panics := handler(func(context.Context, Request) Response { panic("on purpose") })
	unencodable := handler(func(context.Context, Request) Response {
		return Patched("", jsonpatch.Operation{Operation: "add", Path: "/a", Value: make(chan int)})
	})
	for name, c := range map[string]struct {
		hook *Webhook
		body string
		want string
	}{
		"v1":      {allow, "{" + reviewV1 + "," + request + "}", `{` + reviewV1 + `,"response":{"uid":"u1","allowed":true,"status":{"metadata":{},"code":200}}}`},
		"v1beta1": {allow, "{" + reviewV1beta1 + "," + request + "}", `{` + reviewV1beta1 + `,"response":{"uid":"u1","allowed":true,"status":{"metadata":{},"code":200}}}`},
		"unknown": {allow, "{" + request + "}", `{` + reviewV1 + `,"response":{"uid":"u1","allowed":true,"status":{"metadata":{},"code":200}}}`},
		"no UID":  {allow, "{}", `{` + reviewV1 + `,"response":{"uid":"","allowed":true,"status":{"metadata":{},"code":200}}}`},
		"no status": {
			handler(func(context.Context, Request) Response { return Response{} }), "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"code":200}}}`,
		},
		"denied": {
			handler(func(context.Context, Request) Response { return Denied("no").WithWarnings("careful") }), "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"no","reason":"Forbidden","code":403},"warnings":["careful"]}}`,
		},
		"patched": {
			handler(func(context.Context, Request) Response {
				return Patched("", jsonpatch.Operation{Operation: "remove", Path: "/a"})
			}), "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":true,"status":{"metadata":{},"code":200},"patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=","patchType":"JSONPatch"}}`,
		},
		"unencodable patch": {
			unencodable, "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"unable to encode response","code":500}}}`,
		},
		"panic": {
			panics, "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"panic: on purpose [recovered]","code":500}}}`,
		},
		"no handler": {
			&Webhook{}, "{" + request + "}",
			`{` + reviewV1 + `,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"panic: runtime error: invalid memory address or nil pointer dereference [recovered]","code":500}}}`,
		},
		"not a review": {
			allow, "{",
			`{"response":{"uid":"","allowed":false,"status":{"metadata":{},"message":"couldn't get version/kind; json parse error: unexpected end of JSON input","code":400}}}`,
		},
		"too large": {
			allow, strings.Repeat(" ", 7<<20),
			`{"response":{"uid":"","allowed":false,"status":{"metadata":{},"message":"request entity is too large; limit is 7340032 bytes","code":413}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withoutPanicHandlers(t)
			if got := post(t, c.hook, c.body); got != c.want+"\n" {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// withoutPanicHandlers keeps panics out of the output of the test.
func withoutPanicHandlers(t *testing.T) {
	handlers := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = nil
	t.Cleanup(func() { utilruntime.PanicHandlers = handlers })
}

func TestServeHTTPWithoutBody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		w := httptest.NewRecorder()
		allow.ServeHTTP(w, &http.Request{Body: body})
		const want = `{"response":{"uid":"","allowed":false,"status":{"metadata":{},"message":"request body is empty","code":400}}}`
		if got := w.Body.String(); got != want+"\n" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// closedWriter is a response to a client that has hung up.
type closedWriter struct {
	http.ResponseWriter
	writes int
}

func (w *closedWriter) Write([]byte) (int, error) { w.writes++; return 0, io.ErrClosedPipe }

func TestClientHangsUp(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	w := &closedWriter{ResponseWriter: httptest.NewRecorder()}
	allow.ServeHTTP(w, r)
	if w.writes != 1 {
		t.Errorf("the response was written %d times", w.writes)
	}
}

func TestContexts(t *testing.T) {
	type key struct{}
	hook := handler(func(ctx context.Context, _ Request) Response { return Allowed(fmt.Sprint(ctx.Value(key{}))) })
	hook.WithContextFunc = func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, key{}, r.Header.Get("Content-Type"))
	}
	if got := post(t, hook, `{}`); !strings.Contains(got, `"message":"application/json"`) {
		t.Error(got)
	}

	if _, err := RequestFromContext(t.Context()); err == nil {
		t.Error("there was a request in a context without one")
	}
	req := Request{admissionv1.AdmissionRequest{UID: "u"}}
	if got, err := RequestFromContext(NewContextWithRequest(t.Context(), req)); err != nil || got.UID != "u" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestPanicsAreCounted(t *testing.T) {
	withoutPanicHandlers(t)
	var handled any
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, reason any) { handled = reason }}
	hook := handler(func(context.Context, Request) Response { panic("on purpose") })
	count := func() float64 { return testutil.ToFloat64(metrics.WebhookPanics) }

	before := count()
	hook.WithRecoverPanic(true).Handle(t.Context(), Request{})
	if got := count() - before; got != 1 || handled != "on purpose" {
		t.Errorf("%v panics were counted, and the panic handler got %v", got, handled)
	}
	func() {
		defer func() {
			if got := recover(); got != "on purpose" {
				t.Errorf("recovered %v", got)
			}
		}()
		hook.WithRecoverPanic(false).Handle(t.Context(), Request{})
	}()
	if got := count() - before; got != 2 {
		t.Errorf("%v panics were counted", got)
	}
}

func TestLogging(t *testing.T) {
	var lines []string
	logger := funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{})
	hook := handler(func(ctx context.Context, _ Request) Response {
		logf.FromContext(ctx).Info("Handling")
		return Allowed("")
	})
	const review = `{"request":{"uid":"u","name":"n","namespace":"ns","resource":{"group":"g","version":"v","resource":"r"},"userInfo":{"username":"me"}}}`
	serve := func() string {
		t.Helper()
		lines = nil
		standalone, err := StandaloneWebhook(hook, StandaloneOptions{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		post(t, standalone, review)
		return strings.Join(lines, "\n")
	}
	const want = `{"logger":"","level":0,"msg":"Handling","object":{"name":"n","namespace":"ns"},"namespace":"ns","name":"n",` +
		`"resource":{"group":"g","version":"v","resource":"r"},"user":"me","requestID":"u"}`
	if got := serve(); got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
	hook.LogConstructor = func(base logr.Logger, req *Request) logr.Logger {
		if req == nil {
			return base.WithValues("without", true)
		}
		return base.WithValues("user", req.UserInfo.Username)
	}
	if got, want := serve(), `{"logger":"","level":0,"msg":"Handling","user":"me"}`; got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
	lines = nil
	post(t, hook, `{`)
	if got := strings.Join(lines, "\n"); !strings.Contains(got, `"without":true`) || !strings.Contains(got, "json parse error") {
		t.Errorf("logged %s", got)
	}
}

func TestStandaloneMetrics(t *testing.T) {
	hook, err := StandaloneWebhook(allow, StandaloneOptions{MetricsPath: "/standalone"})
	if err != nil {
		t.Fatal(err)
	}
	requests := webhookmetrics.RequestTotal.WithLabelValues("/standalone", "200")
	before := testutil.ToFloat64(requests)
	post(t, hook, `{}`)
	post(t, hook, `{}`)
	if got := testutil.ToFloat64(requests) - before; got != 2 {
		t.Errorf("%v requests were counted", got)
	}
	if got := testutil.ToFloat64(webhookmetrics.RequestInFlight.WithLabelValues("/standalone")); got != 0 {
		t.Errorf("%v requests are in flight", got)
	}
	if n := testutil.CollectAndCount(webhookmetrics.RequestLatency, "controller_runtime_webhook_latency_seconds"); n == 0 {
		t.Error("there is no latency")
	}
}

func TestResponses(t *testing.T) {
	forbidden, ok := int32(http.StatusForbidden), int32(http.StatusOK)
	for name, c := range map[string]struct {
		got     Response
		allowed bool
		code    int32
		reason  string
		message string
	}{
		"allowed":  {Allowed("yes"), true, ok, "", "yes"},
		"denied":   {Denied("no"), false, forbidden, "Forbidden", "no"},
		"patched":  {Patched("changed"), true, ok, "", "changed"},
		"errored":  {Errored(418, errors.New("teapot")), false, 418, "", "teapot"},
		"validity": {ValidationResponse(false, ""), false, forbidden, "Forbidden", ""},
	} {
		if r := c.got; r.Allowed != c.allowed || r.Result.Code != c.code || string(r.Result.Reason) != c.reason || r.Result.Message != c.message {
			t.Errorf("%s: got %+v", name, r)
		}
	}

	shared := make([]string, 1, 2)
	first := Response{AdmissionResponse: admissionv1.AdmissionResponse{Warnings: shared}}
	a, b := first.WithWarnings("a"), first.WithWarnings("b")
	if a.Warnings[1] != "a" || b.Warnings[1] != "b" {
		t.Errorf("responses share their warnings: %v, %v", a.Warnings, b.Warnings)
	}
}

func TestPatchResponseFromRaw(t *testing.T) {
	if r := PatchResponseFromRaw([]byte(`{"a":1}`), []byte(`{"a":1}`)); !r.Allowed || r.PatchType != nil || len(r.Patches) > 0 {
		t.Errorf("without a change: %+v", r)
	}
	r := PatchResponseFromRaw([]byte(`{"a":1,"b":2}`), []byte(`{"a":2,"b":2}`))
	if !r.Allowed || *r.PatchType != admissionv1.PatchTypeJSONPatch || len(r.Patches) != 1 || r.Patches[0].Json() != `{"op":"replace","path":"/a","value":2}` {
		t.Errorf("with a change: %+v", r)
	}
	if r := PatchResponseFromRaw([]byte(`{`), []byte(`{}`)); r.Allowed || r.Result.Code != http.StatusInternalServerError {
		t.Errorf("of something that is not JSON: %+v", r)
	}
}

func TestMultiHandlers(t *testing.T) {
	answer := func(r Response) Handler { return HandlerFunc(func(context.Context, Request) Response { return r }) }
	patch := func(path string) Response {
		return PatchResponseFromRaw([]byte(`{}`), []byte(`{"`+path+`":1}`)).WithWarnings("about " + path)
	}
	strange := admissionv1.PatchType("Strange")
	odd := Allowed("")
	odd.PatchType = &strange
	for name, c := range map[string]struct {
		handler  Handler
		allowed  bool
		message  string
		patch    string
		warnings string
	}{
		"all allow":         {MultiValidatingHandler(answer(Allowed("").WithWarnings("a")), answer(Allowed("").WithWarnings("b"))), true, "", "", "a b"},
		"one denies":        {MultiValidatingHandler(answer(Allowed("").WithWarnings("a")), answer(Denied("no")), nil), false, "no", "", ""},
		"no validators":     {MultiValidatingHandler(), true, "", "", ""},
		"all patch":         {MultiMutatingHandler(answer(patch("a")), answer(Allowed("")), answer(patch("b"))), true, "", `[{"op":"add","path":"/a","value":1},{"op":"add","path":"/b","value":1}]`, "about a about b"},
		"one denies to":     {MultiMutatingHandler(answer(patch("a")), answer(Denied("no")), nil), false, "no", "", ""},
		"unknown patchtype": {MultiMutatingHandler(answer(odd)), false, "unexpected patch type returned by the handler: Strange, only allow: JSONPatch", "", ""},
		"no mutators":       {MultiMutatingHandler(), true, "", `[]`, ""},
	} {
		r := c.handler.Handle(t.Context(), Request{})
		if r.Allowed != c.allowed || r.Result.Message != c.message || string(r.Patch) != c.patch || strings.Join(r.Warnings, " ") != c.warnings {
			t.Errorf("%s: got %+v, patch %s", name, r, r.Patch)
		}
		if len(r.Patches) > 0 {
			t.Errorf("%s: has patches that are not encoded", name)
		}
	}
}
