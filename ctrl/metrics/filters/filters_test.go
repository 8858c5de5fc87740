package filters

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reviews counts the reviews that pass it, by the last part of their path, and fails those that
// fail has an error for, or answers those that page has a body for with it.
type reviews struct {
	http.RoundTripper
	count map[string]int
	fail  map[string]error
	page  map[string]string
}

func (r *reviews) RoundTrip(request *http.Request) (*http.Response, error) {
	kind := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	r.count[kind]++
	if err := r.fail[kind]; err != nil {
		return nil, err
	}
	if body, ok := r.page[kind]; ok {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}, nil
	}
	return r.RoundTripper.RoundTrip(request)
}

// start returns a function that sends a request through the filter, with a token unless it is
// empty.
func start(t *testing.T) (send func(method, path, token string) (int, string), r *reviews) {
	t.Helper()
	tokens := map[string]*user.DefaultInfo{
		"administrators-token": {Name: "admin", Groups: []string{user.SystemPrivilegedGroup}},
		"guests-token":         {Name: "guest"},
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := plane.Config()
	r = &reviews{count: map[string]int{}, fail: map[string]error{}, page: map[string]string{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r.RoundTripper = next
		return r
	})
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := WithAuthenticationAndAuthorization(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("metrics"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path, token string) (int, string) {
		request := httptest.NewRequest(method, path, nil)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder.Code, strings.TrimSpace(recorder.Body.String())
	}, r
}

func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, _ := start(t)
		for _, c := range []struct {
			method, path, token string
			code                int
			body                string
		}{
			{"GET", "/metrics", "", 401, "Unauthorized"},
			{"GET", "/metrics", "unknown-token", 401, "Unauthorized"},
			{"GET", "/metrics", "guests-token", 403, "Authorization denied for user guest"},
			{"GET", "/metrics", "administrators-token", 200, "metrics"},
			{"PUT", "/debug", "administrators-token", 200, "metrics"},
			{"GET", "/healthz", "guests-token", 200, "metrics"}, // anyone may get it
			{"PUT", "/healthz", "guests-token", 403, "Authorization denied for user guest"},
		} {
			if code, body := send(c.method, c.path, c.token); code != c.code || body != c.body {
				t.Errorf("%s %s with the token %q: %d %q", c.method, c.path, c.token, code, body)
			}
		}
	})
}

func TestCaching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, r := start(t)
		expect := func(when string, tokens, accesses int) {
			t.Helper()
			send("GET", "/metrics", "administrators-token")
			if r.count["tokenreviews"] != tokens || r.count["subjectaccessreviews"] != accesses {
				t.Errorf("%s: %v", when, r.count)
			}
		}
		expect("at first", 1, 1)
		expect("at once again", 1, 1)
		time.Sleep(2 * time.Minute)
		expect("after 2 minutes", 2, 1)
		time.Sleep(4 * time.Minute)
		expect("after 6 minutes", 3, 2)
	})
}

func TestAPIServerUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, r := start(t)
		r.fail["tokenreviews"] = errors.New("unreachable")
		if code, body := send("GET", "/metrics", "administrators-token"); code != 500 || body != "Authentication failed" {
			t.Errorf("without an answer to the TokenReview: %d %q", code, body)
		}
		r.fail["tokenreviews"], r.fail["subjectaccessreviews"] = nil, errors.New("unreachable")
		code, body := send("GET", "/metrics", "administrators-token")
		if code != 500 || body != "Authorization for user admin failed" {
			t.Errorf("without an answer to the SubjectAccessReview: %d %q", code, body)
		}
		r.fail["subjectaccessreviews"] = nil
		if code, _ := send("GET", "/metrics", "administrators-token"); code != 200 {
			t.Errorf("after the API server is back: %d", code)
		}
	})
}

// A proxy may answer in place of the API server, and a client's own rate limit may be exceeded.
func TestReviewsThatFailAreNotRejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, r := start(t)
		for _, page := range []string{"", "<html>maintenance</html>", `{"kind":"Status","apiVersion":"v1"}`, `[]`} {
			r.page["tokenreviews"] = page
			if code, body := send("GET", "/metrics", "administrators-token"); code != 500 {
				t.Errorf("if the answer to a TokenReview is %q: %d %q", page, code, body)
			}
		}
		r.page["tokenreviews"] = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{}}`
		if code, body := send("GET", "/metrics", "administrators-token"); code != 401 {
			t.Errorf("if the answer is that a token is not valid: %d %q", code, body)
		}
		delete(r.page, "tokenreviews")
		if code, _ := send("GET", "/metrics", "administrators-token"); code != 200 {
			t.Errorf("after the API server is back: %d", code)
		}
	})
}

func TestInvalidConfig(t *testing.T) {
	config := &rest.Config{Host: "https://example.test", TLSClientConfig: rest.TLSClientConfig{CAFile: "absent.crt"}}
	_, err := WithAuthenticationAndAuthorization(config, nil)
	if err == nil || !strings.Contains(err.Error(), "absent.crt") {
		t.Errorf("a certificate authority that is not there: %v", err)
	}
	config = &rest.Config{Host: "no host:"}
	if _, err := WithAuthenticationAndAuthorization(config, http.DefaultClient); err == nil {
		t.Error("an invalid host is accepted")
	}
}
