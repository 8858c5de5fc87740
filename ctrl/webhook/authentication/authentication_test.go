package authentication

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a review to hook and returns the body of the response.
func post(hook http.Handler, contentType, body string) string {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, r)
	return w.Body.String()
}

func TestServeHTTP(t *testing.T) {
	const (
		json    = "application/json"
		v1      = `"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"`
		v1beta1 = `"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1"`
		spec    = `"metadata":{"uid":"u"},"spec":{"token":"secret"}`
		known   = `"metadata":{"uid":"u"},"spec":{},"status":{"authenticated":true,"user":{"username":"me"}}}`
	)
	errored := func(message string) string {
		return `{"metadata":{},"spec":{},"status":{"user":{},"error":"` + message + `"}}`
	}
	hook := &Webhook{Handler: HandlerFunc(func(_ context.Context, req Request) Response {
		if req.Spec.Token != "secret" {
			return Unauthenticated("unknown token", authenticationv1.UserInfo{Username: "me"})
		}
		return Authenticated("", authenticationv1.UserInfo{Username: "me"})
	})}
	for name, c := range map[string]struct{ contentType, body, want string }{
		"v1":              {json, `{` + v1 + `,` + spec + `}`, `{` + v1 + `,` + known},
		"v1beta1":         {json, `{` + v1beta1 + `,` + spec + `}`, `{` + v1beta1 + `,` + known},
		"no version":      {json, `{` + spec + `}`, `{` + v1 + `,` + known},
		"no UID":          {json, `{"spec":{"token":"x"}}`, `{` + v1 + `,"metadata":{},"spec":{},"status":{"user":{},"error":"unknown token"}}`},
		"no token":        {json, `{"spec":{"token":""}}`, errored("token is empty")},
		"truncated":       {json, `{`, errored("couldn't get version/kind; json parse error: unexpected end of JSON input")},
		"not JSON":        {"text/plain", `{}`, errored("contentType=text/plain, expected application/json")},
		"too large":       {json, strings.Repeat(" ", 1<<20), errored("request entity is too large; limit is 1048576 bytes")},
		"other kind":      {json, `{"kind":"Pod","apiVersion":"v1",` + spec + `}`, `{"kind":"Pod","apiVersion":"v1",` + known},
		"response inside": {json, `{` + v1 + `,` + spec + `,"status":{"authenticated":true}}`, `{` + v1 + `,` + known},
	} {
		if got := post(hook, c.contentType, c.body); got != c.want+"\n" {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}

	w := httptest.NewRecorder()
	hook.ServeHTTP(w, &http.Request{Body: http.NoBody})
	if got := w.Body.String(); got != errored("request body is empty")+"\n" {
		t.Errorf("without a body: %s", got)
	}
}

func TestContextFunc(t *testing.T) {
	type key struct{}
	hook := &Webhook{
		Handler: HandlerFunc(func(ctx context.Context, _ Request) Response {
			return ReviewResponse(false, authenticationv1.UserInfo{}, ctx.Value(key{}).(string))
		}),
		WithContextFunc: func(ctx context.Context, r *http.Request) context.Context {
			return context.WithValue(ctx, key{}, r.Method)
		},
	}
	if got := post(hook, "application/json", `{"spec":{"token":"x"}}`); !strings.Contains(got, `"error":"POST"`) {
		t.Error(got)
	}
}

func TestTokensAreNotLogged(t *testing.T) {
	var lines strings.Builder
	hook := &Webhook{
		Handler: HandlerFunc(func(context.Context, Request) Response { return Errored(errors.New("no")) }),
		log:     funcr.NewJSON(func(line string) { lines.WriteString(line) }, funcr.Options{Verbosity: 10}),
	}
	post(hook, "application/json", `{"metadata":{"uid":"u"},"spec":{"token":"confidential"}}`)
	post(hook, "application/json", `{"metadata":1,"spec":{"token":"confidential"}}`)
	if got := lines.String(); !strings.Contains(got, `"requestID":"u"`) || strings.Contains(got, "confidential") {
		t.Errorf("logged %s", got)
	}
}

func TestResponses(t *testing.T) {
	user := authenticationv1.UserInfo{Username: "me", Groups: []string{"us"}}
	for name, c := range map[string]struct {
		got  Response
		want authenticationv1.TokenReviewStatus
	}{
		"authenticated":   {Authenticated("", user), authenticationv1.TokenReviewStatus{Authenticated: true, User: user}},
		"unauthenticated": {Unauthenticated("no", user), authenticationv1.TokenReviewStatus{Error: "no"}},
		"errored":         {Errored(errors.New("no")), authenticationv1.TokenReviewStatus{Error: "no"}},
		"with audiences": {
			ReviewResponse(true, user, "", "a", "b"),
			authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: []string{"a", "b"}},
		},
	} {
		if !reflect.DeepEqual(c.got.Status, c.want) {
			t.Errorf("%s: got %+v", name, c.got.Status)
		}
	}
}
