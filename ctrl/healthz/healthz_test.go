package healthz

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHandler(t *testing.T) {
	good := Checker(func(*http.Request) error { return nil })
	bad := Checker(func(*http.Request) error { return errors.New("secret reason") })
	mixed := map[string]Checker{"b": bad, "a": good, "c": good}
	for name, c := range map[string]struct {
		checks map[string]Checker
		path   string
		code   int
		body   string
	}{
		"no checks":         {nil, "/", 200, "ok"},
		"no checks, ping":   {nil, "/ping", 200, "ok"},
		"no checks, other":  {nil, "/x", 404, "404 page not found\n"},
		"no path":           {nil, "", 200, "ok"},
		"all good":          {map[string]Checker{"a": good}, "/", 200, "ok"},
		"verbose":           {map[string]Checker{"a": good}, "/?verbose", 200, "[+]a ok\nhealthz check passed\n"},
		"one bad":           {mixed, "/", 500, "[+]a ok\n[-]b failed: reason withheld\n[+]c ok\nhealthz check failed\n"},
		"the bad excluded":  {mixed, "/?exclude=b", 200, "ok"},
		"excluded, verbose": {mixed, "/?exclude=b&exclude=c&verbose", 200, "[+]a ok\n[+]b excluded: ok\n[+]c excluded: ok\nhealthz check passed\n"},
		"unknown excluded": {
			mixed, "/?exclude=z&exclude=y&exclude=b&verbose", 200,
			"[+]a ok\n[+]b excluded: ok\n[+]c ok\nwarn: some health checks cannot be excluded: no matches for \"y\",\"z\"\nhealthz check passed\n",
		},
		"one by name":      {mixed, "/a", 200, "ok"},
		"the bad by name":  {mixed, "/b", 500, "internal server error: secret reason\n"},
		"an unclean path":  {mixed, "//x/../a/", 200, "ok"},
		"an unknown name":  {mixed, "/ping", 404, "404 page not found\n"},
		"not what follows": {mixed, "/a/b", 404, "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "http://here/", nil)
			u, err := req.URL.Parse("http://here" + c.path)
			if err != nil {
				t.Fatal(err)
			}
			req.URL = u
			resp := httptest.NewRecorder()
			(&Handler{Checks: c.checks}).ServeHTTP(resp, req)
			if resp.Code != c.code || resp.Body.String() != c.body {
				t.Errorf("got %d %q, want %d %q", resp.Code, resp.Body.String(), c.code, c.body)
			}
		})
	}
}
