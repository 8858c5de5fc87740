package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
)

// act does an act by the API.
func (s *shop) act(t *testing.T, pairs ...string) (code int, body string) {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	w := s.request(t, "POST", "/console/api/act", form, nil)
	s.idle(t)
	return w.Code, w.Body.String()
}

// key returns the data of a request.
func (s *shop) key(t *testing.T, controller, request string) Key {
	t.Helper()
	var key Key
	path := "/console/api/key?controller=" + controller + "&request=" + url.QueryEscape(request)
	if err := json.Unmarshal([]byte(s.get(t, path)), &key); err != nil {
		t.Fatal(err)
	}
	return key
}

// TestActs does every act, and checks its effect.
func TestActs(t *testing.T) {
	s := open(t, shopOptions{})
	s.create(t, "shop", "one")
	service := func() string {
		var service corev1.Service
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop"}, &service); err != nil {
			t.Fatal(err)
		}
		return service.Labels["motto"]
	}
	must := func(pairs ...string) {
		t.Helper()
		if code, body := s.act(t, pairs...); code != http.StatusOK {
			t.Fatalf("%v: %d %s", pairs, code, body)
		}
	}

	must("act", "pause", "controller", "site", "request", "default/shop")
	s.set(t, "shop", "motto", "two")
	if key := s.key(t, "site", "default/shop"); service() != "one" || !key.Paused || key.Queue == nil || key.Queue.State != "paused" || len(key.Queue.Causes) == 0 {
		t.Errorf("paused: motto %s, %+v", service(), key.Queue)
	}
	s.create(t, "other", "x") // is not paused
	if key := s.key(t, "site", "default/other"); len(key.Reconciles) == 0 {
		t.Error("another request was not reconciled")
	}
	must("act", "resume", "controller", "site", "request", "default/shop")
	key := s.key(t, "site", "default/shop")
	if service() != "two" || key.Paused || key.Queue != nil {
		t.Errorf("resumed: motto %s, %+v", service(), key)
	}
	causes := ""
	for _, r := range key.Reconciles {
		causes += fmt.Sprintln(r.Causes)
	}
	if !strings.Contains(causes, "updated ConfigMap default/shop") {
		t.Errorf("the causes of a parked request are lost: %s", causes)
	}

	must("act", "pause", "controller", "site")
	s.set(t, "shop", "motto", "three")
	if now := s.console.now(); service() != "two" || !now.Controllers[0].Paused {
		t.Errorf("the controller is paused: motto %s, %+v", service(), now.Controllers[0])
	}
	must("act", "resume", "controller", "site")
	if service() != "three" {
		t.Errorf("the controller is resumed: motto %s", service())
	}

	before := len(s.key(t, "site", "default/shop").Reconciles)
	must("act", "now", "controller", "site", "request", "default/shop")
	key = s.key(t, "site", "default/shop")
	if len(key.Reconciles) <= before || key.Reconciles[0].Causes[0].Event != "manual" {
		t.Errorf("now: %d reconciles, then %d: %+v", before, len(key.Reconciles), key.Reconciles[0].Causes)
	}

	s.set(t, "shop", "fail", "often")
	must("act", "now", "controller", "site", "request", "default/shop")
	if key := s.key(t, "site", "default/shop"); key.Retries == 0 || !strings.Contains(key.Reconciles[0].Error, "the site fails: often") {
		t.Errorf("failing: %d retries, %+v", key.Retries, key.Reconciles[0])
	}
	s.set(t, "shop", "fail", "")
	must("act", "forget", "controller", "site", "request", "default/shop")
	if key := s.key(t, "site", "default/shop"); key.Retries != 0 || key.Reconciles[0].Result != "success" {
		t.Errorf("forgotten: %d retries, %+v", key.Retries, key.Reconciles[0])
	}

	lines := func() string { return fmt.Sprint(s.key(t, "site", "default/shop").Reconciles[0].Lines) }
	if strings.Contains(lines(), "A detail") {
		t.Errorf("at level 0: %s", lines())
	}
	must("act", "level", "level", "3")
	must("act", "now", "controller", "site", "request", "default/shop")
	if !strings.Contains(lines(), "A detail") {
		t.Errorf("at level 3: %s", lines())
	}
	must("act", "level", "level", "10")
	if page := s.get(t, "/console/"); !strings.Contains(page, `<option value="10" selected>`) {
		t.Errorf("level 10 is not selected: %s", page)
	}
	for _, c := range [][]string{
		{"act", "pause", "controller", "absent"},
		{"act", "explode", "controller", "site"},
		{"act", "now", "controller", "site"},
		{"act", "level", "level", "11"},
		{"act", "pause", "controller", "site", "request", "default/"},
	} {
		if code, body := s.act(t, c...); code/100 != 4 {
			t.Errorf("%v: %d %s", c, code, body)
		}
	}
	if code, body := s.act(t, "act", "pause", "controller", "site", "request", strings.Repeat("x", 100<<10)); code != 400 || !strings.Contains(body, "cannot be read") {
		t.Errorf("a large form: %d %s", code, body)
	}
}

// TestForms acts by the form of a page, as a browser does, and with the form of another start of the console.
func TestForms(t *testing.T) {
	s := open(t, shopOptions{})
	header := http.Header{"Cookie": {s.console.cookie() + "=" + s.console.options.Token}, "Accept": {"text/html"}}
	page := s.request(t, "GET", "/console/", nil, header).Body.String()
	key := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if key == nil {
		t.Fatal(page)
	}
	for _, c := range []struct {
		form, back, location string
		code                 int
	}{
		{key[1], "/console/controller?name=site", "/console/controller?name=site", 303},
		{key[1], "//attacker.example/", "/console/", 303},
		{key[1], `/console/\attacker.example`, "/console/", 303},
		{"x", "/console/", "", 403},
		{"", "/console/", "", 403},
	} {
		w := s.request(t, "POST", "/console/act", url.Values{
			"act": {"pause"}, "controller": {"site"}, "form": {c.form}, "back": {c.back}}, header)
		if w.Code != c.code || w.Header().Get("Location") != c.location {
			t.Errorf("%+v: %d to %s", c, w.Code, w.Header().Get("Location"))
		}
	}
}

// TestStream reads the stream of events over a connection, and leaves it open: the manager stops nevertheless.
func TestStream(t *testing.T) {
	s := open(t, shopOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", strings.Replace(s.console.URL(), "/console/?", "/console/live?", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.RawQuery = ""
	request.Header.Set("Authorization", "Bearer "+s.console.options.Token)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		return ""
	}
	first := next()
	s.create(t, "shop", "one")
	if second := next(); first == "" || second == "" || second == first {
		t.Errorf("the events are %q and %q", first, second)
	}
	s.stop()
	if last := next(); last != "" && lines.Err() == nil {
		for last != "" {
			last = next()
		}
	}
}
