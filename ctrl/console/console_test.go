package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// TestPages requests every page, and its data, after a user's change that went through both controllers.
func TestPages(t *testing.T) {
	s := open(t, shopOptions{})
	s.create(t, "shop", "quality")
	s.set(t, "shop", "motto", "speed")

	chain := s.console.chainOfLast(t, s)
	for _, c := range []struct {
		path string
		want []string
	}{
		{"", []string{"site", "tagger", "ready", "Pause"}},
		{"controller?name=site", []string{"Controller of ConfigMap", "default/shop", "Last reconciles"}},
		{"key?controller=site&request=default/shop", []string{
			"updated", "ConfigMap default/shop", "get ConfigMap default/shop", "from the cache", "contact",
			"metadata.labels.motto", "<del>quality</del>", "<ins>speed</ins>", "The site is up", "data.password", hidden,
			"It is not queued", "Reconcile now", "who set them"}},
		{"key?controller=tagger&request=default/shop", []string{"metadata.annotations.tag", "site default/shop"}},
		{"object?kind=Service&name=default/shop", []string{"Writes of this manager", "ConfigMap default/shop", "spec.ports"}},
		{"object?kind=Secret&name=default/shop", []string{"data.password", hidden}},
		{"owners", []string{"ConfigMap default/shop", "Service default/shop", "Secret default/shop"}},
		{"caches", []string{"ConfigMap", "Service", "Secret", "site has read it"}},
		{"warnings", []string{"There are no warnings"}},
		{chain, []string{"ConfigMap default/shop updated", "site default/shop", "tagger default/shop", "d1"}},
	} {
		page := s.get(t, "/console/"+c.path)
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %q:\n%s", c.path, want, page)
			}
		}
		api := c.path
		if api == "" {
			api = "now"
		}
		data := s.get(t, "/console/api/"+api)
		var parsed any
		if err := json.Unmarshal([]byte(data), &parsed); err != nil {
			t.Errorf("the API of %s: %v", c.path, err)
		}
		for _, text := range []string{page, data} {
			if strings.Contains(text, password) {
				t.Errorf("%s shows the Secret", c.path)
			}
		}
	}
}

// chainOfLast returns the path of the chain of the last reconcile of the tagger.
func (c *Console) chainOfLast(t *testing.T, s *shop) string {
	t.Helper()
	var key Key
	if err := json.Unmarshal([]byte(s.get(t, "/console/api/key?controller=tagger&request=default/shop")), &key); err != nil {
		t.Fatal(err)
	}
	for _, r := range key.Reconciles {
		if len(r.Writes) > 0 {
			return fmt.Sprint("chain?reconcile=", r.ID)
		}
	}
	t.Fatal("the tagger wrote nothing")
	return ""
}

// TestErrors requests pages that do not exist. The message names the mistake, in the page and in the API.
func TestErrors(t *testing.T) {
	s := open(t, shopOptions{})
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"nothing":                                  {404, "There is no such page"},
		"controller?name=absent":                   {404, `no controller "absent"`},
		"controller?name=site&offset=-1":           {400, "not negative"},
		"key?controller=site&request=default/gone": {404, "no record of"},
		"reconcile?id=4711":                        {404, "There is no reconcile 4711"},
		"chain?reconcile=4711":                     {404, "There is no reconcile 4711"},
		"chain?reconcile=0":                        {404, "There is no reconcile 0"},
		"controller?name=site&offset=2001":         {400, "at most 2000"},
		"owners?offset=-1":                         {400, "not negative"},
		"reconcile?id=x":                           {400, "must be a number"},
		"object?kind=Absent.example.com&name=a":    {404, "serves no kind Absent.example.com"},
		"object?kind=Service&name=":                {400, "NAMESPACE/NAME"},
		"object?kind=Service&name=shop":            {400, "NAMESPACE/NAME"},
		"object?kind=Service&name=default/shop/x":  {400, "NAMESPACE/NAME"},
	} {
		page := s.request(t, "GET", "/console/"+path, nil, nil)
		if text := strings.ReplaceAll(page.Body.String(), "&#34;", `"`); page.Code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %s", path, page.Code, text)
		}
		api := s.request(t, "GET", "/console/api/"+path, nil, nil)
		var body struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(api.Body.Bytes(), &body); err != nil || api.Code != want.code || body.Code != want.code || !strings.Contains(body.Message, want.text) {
			t.Errorf("the API of %s: %d %s", path, api.Code, api.Body)
		}
	}
	if gone := s.get(t, "/console/object?kind=Service&name=default/gone"); !strings.Contains(gone, "There is no such object now.") {
		t.Error(gone)
	}
}

// TestClusterScoped shows the writes of an object that is in no namespace, whatever namespace a client thinks of, and in whatever case it
// writes the kind.
func TestClusterScoped(t *testing.T) {
	s := open(t, shopOptions{})
	w := s.console.recorder.AddController(fakeControls{name: "maker"}).NewWorker()
	run := w.Begin(types.NamespacedName{Name: "made"}, nil, cause.Causes{}, 0, time.Now())
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made"}}
	if err := s.mgr.GetClient().Create(context.WithValue(t.Context(), observe.RunKey{}, run), made); err != nil {
		t.Fatal(err)
	}
	w.End(run, observe.Outcome{Result: "success"}, false)
	for _, query := range []string{"kind=Namespace&name=made", "kind=Namespace&name=default/made", "kind=namespace&name=made", "kind=NAMESPACE&name=made"} {
		var page ObjectPage
		if err := json.Unmarshal([]byte(s.get(t, "/console/api/object?"+query)), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Writes) != 1 || page.Writes[0].Controller != "maker" || page.Object.Name != "made" || page.Object.Kind != "Namespace" || page.Object.UID == "" {
			t.Errorf("%s: %+v of %+v", query, page.Writes, page.Object)
		}
	}
}

// TestAccess: without the token there is nothing, for another host there is nothing, and no page may be framed.
func TestAccess(t *testing.T) {
	s := open(t, shopOptions{})
	token := s.console.options.Token
	cookie := s.console.cookie() + "=" + token
	html := []string{"text/html"}
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		code               int
	}{
		{"no token", "GET", "/console/", http.Header{"Accept": html}, 401},
		{"no token, API", "GET", "/console/api/now", http.Header{}, 401},
		{"no token, stream", "GET", "/console/live", http.Header{}, 401},
		{"no token, style", "GET", "/console/style.css", http.Header{}, 200},
		{"wrong token", "GET", "/console/?token=x", http.Header{}, 401},
		{"wrong bearer token", "GET", "/console/", http.Header{"Authorization": {"Bearer x"}}, 401},
		{"empty bearer token", "GET", "/console/", http.Header{"Authorization": {"Bearer "}}, 401},
		{"token", "GET", "/console/?token=" + token, http.Header{}, 303},
		{"bearer token", "GET", "/console/", http.Header{"Authorization": {"Bearer " + token}}, 200},
		{"cookie", "GET", "/console/", http.Header{"Cookie": {cookie}}, 200},
		{"cookie of another console", "GET", "/console/", http.Header{"Cookie": {"flyball-console-1=" + token}}, 401},
		{"another host", "GET", "/console/", http.Header{"Cookie": {cookie}, "Host": {"attacker.example:80"}}, 421},
		{"a name that begins like loopback", "GET", "/console/", http.Header{"Cookie": {cookie}, "Host": {"127.0.0.1.attacker.example"}}, 421},
		{"localhost", "GET", "/console/", http.Header{"Cookie": {cookie}, "Host": {"localhost:1234"}}, 200},
		{"IPv6", "GET", "/console/", http.Header{"Cookie": {cookie}, "Host": {"[::1]:1234"}}, 200},
		{"act without the form", "POST", "/console/act", http.Header{"Cookie": {cookie}}, 403},
		{"act of another site", "POST", "/console/act", http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"act of another origin", "POST", "/console/act", http.Header{"Cookie": {cookie}, "Origin": {"http://attacker.example"}}, 403},
		{"act by GET", "GET", "/console/act?act=pause&controller=site", http.Header{"Cookie": {cookie}}, 404},
	} {
		w := s.request(t, c.method, c.path, url.Values{"act": {"pause"}, "controller": {"site"}}, c.header)
		if w.Code != c.code {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		h := w.Header()
		if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", c.name, h)
		}
		if c.code == 303 {
			if h.Get("Location") != "/console/" || !strings.Contains(h.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
				t.Errorf("%s: the headers are %v", c.name, h)
			}
		}
	}
	if c := s.console.now().Controllers[0]; c.Paused {
		t.Error("an act that was refused was done")
	}
}
