package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/observe"
)

// FuzzPages requests paths with queries. The console neither panics nor fails, its API responds in JSON, and no page has a part of
// the request that is not escaped.
func FuzzPages(f *testing.F) {
	s := open(f, shopOptions{})
	r := s.console.recorder
	w := r.AddController(fakeControls{name: evil, keys: 2, kind: configMaps}).NewWorker()
	run := w.Begin(types.NamespacedName{Namespace: evil, Name: evil}, nil, evilCauses, 0, time.Now())
	r.Logger(run, logr.Discard()).Info(evil, evil, evil)
	w.End(run, observe.Outcome{Result: "error", Err: evil}, true)
	id := fmt.Sprint(run.ID)
	for _, v := range append(views, view{path: "live"}, view{path: "nothing"}, view{path: "act"}, view{path: "style.css"}, view{path: "../etc"}, view{path: `<b>"'`}, view{path: "%2e%2e//"}) {
		for _, query := range []string{
			"", "name=site", "name=" + url.QueryEscape(evil), "name=site&offset=7&limit=1000", "name=site&offset=9223372036854775807&limit=9223372036854775807",
			"controller=site&request=default/shop", "controller=" + url.QueryEscape(evil) + "&request=" + url.QueryEscape(evil+"/"+evil), "controller=site&request=%00%ff/..%2f",
			"id=" + id, "id=-1", "id=99999999999999999999", "reconcile=" + id, "reconcile=0", "kind=ConfigMap&name=default/shop", "kind=Namespace&name=a/default",
			"kind=" + url.QueryEscape(evil) + "&name=" + url.QueryEscape(evil), "kind=ConfigMap&name=../../secrets", "kind=ConfigMap&name=a/b/c", "kind=Secret&name=%2e%2e/%2e%2e",
			"namespace=" + url.QueryEscape(evil), "namespace=%00&offset=3", "token=x", "%zz;&=&&", "before=1&controller=site&request=default/shop&limit=0",
		} {
			f.Add("/console/"+v.path, query)
			f.Add("/console/api/"+v.path, query)
		}
	}
	f.Add("", "")
	f.Add("/", "token=")
	f.Add("//attacker.example/console/", "")
	f.Fuzz(func(t *testing.T, path, query string) {
		s.fuzz(t, path, query)
		// Markup in the path and in each value.
		const mark = `<zq "'>`
		values, _ := url.ParseQuery(query)
		for key := range values {
			values[key][0] += mark
		}
		body := s.fuzz(t, path+mark, query) + s.fuzz(t, path, values.Encode())
		for _, raw := range []string{"<zq", `zq "'`, `zq "`} {
			if strings.Contains(body, raw) {
				t.Errorf("%q?%q: a part of the request is not escaped: %s", path, query, body)
			}
		}
	})
}

// fuzz requests a path, and returns the response, if it is a page.
func (s *shop) fuzz(t *testing.T, path, query string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if strings.Contains(path, "live") {
		cancel() // the stream ends after the first event
	}
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: path, RawQuery: query}, Host: "127.0.0.1",
		Header: http.Header{"Authorization": {"Bearer " + s.console.options.Token}, "Accept": {"text/html"}}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: path,
	}).WithContext(ctx)
	w := httptest.NewRecorder()
	s.console.handler.ServeHTTP(w, r)
	if w.Code >= 500 || w.Code < 200 {
		t.Errorf("%q?%q: %d %s", path, query, w.Code, w.Body)
	}
	if location := w.Header().Get("Location"); location != "" && (!strings.HasPrefix(location, "/") || strings.HasPrefix(location, "//") || strings.HasPrefix(location, `/\`)) {
		t.Errorf("%q?%q: redirected to %q", path, query, location)
	}
	body := w.Body.String()
	switch kind := w.Header().Get("Content-Type"); {
	case strings.HasPrefix(kind, "application/json"):
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q?%q: no JSON: %s", path, query, body)
		}
		return ""
	case strings.HasPrefix(kind, "text/html"):
		if strings.Contains(body, "<script>") || strings.Count(body, "<script") > 1 {
			t.Errorf("%q?%q: a script: %s", path, query, body)
		}
		return body
	}
	return ""
}
