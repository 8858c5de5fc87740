package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-logr/logr"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/metrics/filters"
)

// fakeControls is a controller with names and texts that an attacker has chosen.
type fakeControls struct {
	observe.Controls
	name    string
	keys    int
	paused  int // requests, one if zero
	stopped bool
	kind    schema.GroupVersionKind
}

const evil = `"><script>alert(1)</script>{{.}}' onload=x javascript:alert(1)`

func (f fakeControls) ControllerName() string        { return f.name }
func (f fakeControls) Kind() schema.GroupVersionKind { return f.kind }
func (f fakeControls) MaxWorkers() int               { return 1 }
func (f fakeControls) Stopped() bool                 { return f.stopped }
func (f fakeControls) Held() (bool, []string) {
	return true, slices.Repeat([]string{evil}, max(f.paused, 1))
}
func (f fakeControls) Retries(string) int { return 3 }
func (f fakeControls) Find(string) (observe.Queued, string, bool) {
	return observe.Queued{Request: evil, Causes: evilCauses}, "waiting", true
}

func (f fakeControls) Queue(offset, limit int) (observe.Queue, bool) {
	q := observe.Queue{Ready: f.keys, Waiting: f.keys, Depth: map[int]int{0: f.keys}}
	for i := offset; i < min(offset+limit, f.keys); i++ {
		key := observe.Queued{Request: fmt.Sprint(evil, i), Causes: evilCauses, Since: time.Now(), Due: time.Now()}
		q.ReadyKeys, q.WaitingKeys = append(q.ReadyKeys, key), append(q.WaitingKeys, key)
	}
	return q, true
}

var evilCauses = cause.Causes{List: []cause.Cause{{
	Kind: cause.Updated, Object: types.NamespacedName{Namespace: evil, Name: evil}, GVK: schema.GroupVersionKind{Kind: evil},
	ResourceVersion: evil, Changed: evil,
}}, Total: 1}

// TestNames shows names, errors, log lines and warnings that contain markup. No page has a script that is not the
// console's, and no attribute that a name has ended.
func TestNames(t *testing.T) {
	s := open(t, shopOptions{})
	r := s.console.recorder
	c := r.AddController(fakeControls{name: evil, keys: 2})
	w := c.NewWorker()
	run := w.Begin(types.NamespacedName{Namespace: evil, Name: evil}, nil, evilCauses, 0, time.Now())
	logger := r.Logger(run, logr.Discard())
	logger.Info(evil, evil, evil)
	logger.Error(errors.New(evil), evil)
	w.End(run, observe.Outcome{Took: time.Second, Result: "error", Err: evil}, true)
	r.Warn(config.Warning{Check: evil, GVK: schema.GroupVersionKind{Kind: evil}, Object: types.NamespacedName{Name: evil}, Field: evil, Writer: evil, Message: evil})

	name := url.QueryEscape(evil)
	for _, path := range []string{"", "controller?name=" + name, "key?controller=" + name + "&request=" + url.QueryEscape(evil+"/"+evil),
		fmt.Sprint("reconcile?id=", run.ID), fmt.Sprint("chain?reconcile=", run.ID), "warnings"} {
		page := s.get(t, "/console/"+path)
		if n := strings.Count(page, "<script"); n != 1 || strings.Contains(page, "<script>alert") || strings.Contains(page, `href="javascript:`) {
			t.Errorf("%s has %d scripts:\n%s", path, n, page)
		}
		if !strings.Contains(page, "alert(1)") {
			t.Errorf("%s does not show the name", path)
		}
	}
	for _, path := range []string{"controller?name=" + name, "object?kind=" + name + "&name=" + name} {
		if page := s.request(t, "GET", "/console/"+path, nil, nil).Body.String(); strings.Count(page, "<script") != 1 {
			t.Errorf("%s: %s", path, page)
		}
	}
}

// TestHostileObjects shows objects with markup in their annotations, data, conditions and events, and writes of them.
func TestHostileObjects(t *testing.T) {
	s := open(t, shopOptions{})
	ctx, own := t.Context(), s.mgr.GetClient()
	w := s.console.recorder.AddController(fakeControls{name: "writer"}).NewWorker()
	run := w.Begin(types.NamespacedName{Namespace: "default", Name: "hostile"}, nil, cause.Causes{}, 0, time.Now())
	recorded := context.WithValue(ctx, observe.RunKey{}, run)
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: "hostile", Annotations: map[string]string{"note": evil}}
	}
	cm := &corev1.ConfigMap{ObjectMeta: meta(), Data: map[string]string{"motto": "quality"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta(), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if err := errors.Join(own.Create(recorded, cm), own.Create(recorded, claim)); err != nil {
		t.Fatal(err)
	}
	s.idle(t)
	cm.Data["file"], cm.Annotations["note"] = evil, evil+evil
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: evil, Status: corev1.ConditionTrue, Reason: evil, Message: evil}}
	about := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "hostile.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "hostile"},
		Type:           corev1.EventTypeWarning, Reason: evil, Message: evil, Source: corev1.EventSource{Component: evil},
	}
	if err := errors.Join(own.Update(recorded, cm), own.Status().Update(recorded, claim), s.client.Create(ctx, about)); err != nil {
		t.Fatal(err)
	}
	w.End(run, observe.Outcome{Result: "success"}, false)
	s.idle(t)
	for path, n := range map[string]int{ // how often the text is there
		"object?kind=ConfigMap&name=default/hostile":                          8,
		"object?kind=PersistentVolumeClaim&name=default/hostile":              6,
		fmt.Sprint("reconcile?id=", run.ID):                                   6,
		"key?controller=site&request=" + "default/hostile":                    6,
		"controller?name=site":                                                0,
		"owners":                                                              0,
		fmt.Sprint("chain?reconcile=", run.ID):                                0,
		"key?controller=writer&request=" + url.QueryEscape("default/hostile"): 6,
	} {
		page := s.get(t, "/console/"+path)
		if scripts := strings.Count(page, "<script"); scripts != 1 || strings.Contains(page, `href="javascript:`) {
			t.Errorf("%s has %d scripts:\n%s", path, scripts, page)
		}
		if got := strings.Count(page, "alert(1)"); got < n {
			t.Errorf("%s shows the text %d times, not %d:\n%s", path, got, n, page)
		}
	}
}

// TestIdleControllers: of many controllers, the page Now shows the idle ones by their names alone.
func TestIdleControllers(t *testing.T) {
	s := open(t, shopOptions{})
	for i := range 40 {
		s.console.recorder.AddController(idleControls{fakeControls{name: fmt.Sprint("idle-", i)}})
	}
	s.console.recorder.AddController(fakeControls{name: "busy", keys: 1})
	page := s.get(t, "/console/")
	if n := strings.Count(page, `class="card"`); n < 1 || n > 3 {
		t.Errorf("%d controllers have figures", n)
	}
	for _, name := range []string{"idle-0", "idle-39", "busy"} {
		if !strings.Contains(page, "name="+name+`"`) {
			t.Errorf("the page does not show %s", name)
		}
	}
}

// idleControls is a controller that is idle.
type idleControls struct{ fakeControls }

func (idleControls) Held() (bool, []string) { return false, nil }

// TestManyRequests: a page of a queue with 100,000 requests has the requests of the page alone.
func TestManyRequests(t *testing.T) {
	s := open(t, shopOptions{workers: 1})
	if code, body := s.act(t, "act", "pause", "controller", "site"); code != 200 {
		t.Fatal(body)
	}
	site := s.controller(t, "site")
	const n = 100_000 // the worker puts one aside, if it waited for it before the pause
	for i := range n {
		if err := site.Now(fmt.Sprint("default/shop-", i)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"controller?name=site&offset=2000": "default/shop-2001", "controller?name=site&limit=1000": "default/shop-30", "": "requests of priority 0",
	} {
		page := s.get(t, "/console/"+path)
		if rows := strings.Count(page, "<li"); !strings.Contains(page, want) || rows > 2*maxRows { // each with its cause
			t.Errorf("%s has %d rows: %.5000s", path, rows, page)
		}
	}
	if now := s.console.now().Controllers[0]; now.Ready < n-1 {
		t.Errorf("%d requests are ready", now.Ready)
	}
	if key := s.key(t, "site", "default/shop-77777"); key.Queue == nil || key.Queue.State != "ready" {
		t.Errorf("a request far behind is %+v", key.Queue)
	}
	if w := s.request(t, "POST", "/console/api/act", url.Values{"act": {"resume"}, "controller": {"site"}}, nil); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
}

// TestStoppedController shows a controller that has stopped as stopped.
func TestStoppedController(t *testing.T) {
	s := open(t, shopOptions{})
	s.console.recorder.AddController(fakeControls{name: "ended", stopped: true})
	for _, path := range []string{"", "controller?name=ended", "key?controller=ended&request=default/a"} {
		if page := s.get(t, "/console/"+path); !strings.Contains(page, "stopped") || strings.Contains(page, "not started") {
			t.Errorf("%s: %s", path, page)
		}
	}
	for _, c := range s.console.now().Controllers {
		if c.Stopped != (c.Name == "ended") {
			t.Errorf("%s: stopped is %v", c.Name, c.Stopped)
		}
	}
}

// TestLoggedSecrets logs Secrets in several ways. No line has their data.
func TestLoggedSecrets(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Data: map[string][]byte{"password": []byte(password)},
		StringData: map[string]string{"password": password},
	}
	for _, value := range []any{
		secret, *secret, secret.Data, secret.StringData, []corev1.Secret{*secret}, &corev1.SecretList{Items: []corev1.Secret{*secret}},
		struct{ S *corev1.Secret }{secret}, []byte(password), []any{secret}, map[string]any{"s": password}, json.RawMessage(password), any(&secret.Data),
	} {
		if text := observe.Text(value); strings.Contains(text, password) || strings.Contains(text, fmt.Sprint([]byte(password))) {
			t.Errorf("a %T is %s", value, text)
		}
	}
	if text := observe.Text(secret); !strings.Contains(text, "default/db") {
		t.Errorf("a Secret is %s", text)
	}
	if text := observe.Text(struct{ A, B int }{1, 2}); text != "{A:1 B:2}" && text != `"{A:1 B:2}"` {
		t.Errorf("a struct is %s", text)
	}
}

// TestFilter serves the console with the filter of the metrics server: rights on the paths decide.
func TestFilter(t *testing.T) {
	s := open(t, shopOptions{console: Options{BindAddress: "127.0.0.1:0", FilterProvider: filters.WithAuthenticationAndAuthorization}})
	for token, want := range map[string]int{"": 401, "unknown": 401, "guest": 403, "operator": 200} {
		header := http.Header{"Authorization": {"Bearer " + token}}
		if token == "" {
			header = http.Header{}
		}
		for _, path := range []string{"/console/", "/console/api/now", "/console/live"} {
			if path == "/console/live" && want == 200 {
				continue // it would not end
			}
			if w := s.request(t, "GET", path, nil, header); w.Code != want {
				t.Errorf("token %q, %s: %d", token, path, w.Code)
			}
		}
	}
	w := s.request(t, "GET", "/console/", nil, http.Header{"Accept": {"text/html"}})
	if w.Code != 303 || w.Header().Get("Location") != "/console/login" {
		t.Errorf("a browser without a token: %d %v", w.Code, w.Header())
	}
	w = s.request(t, "POST", "/console/login", url.Values{"token": {"operator"}}, http.Header{})
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	if w = s.request(t, "GET", "/console/", nil, http.Header{"Cookie": {cookie}}); w.Code != 200 {
		t.Errorf("a browser that has signed in: %d", w.Code)
	}
	if strings.Contains(s.console.URL(), "token") {
		t.Errorf("the URL is %s", s.console.URL())
	}
	if _, err := New(Options{BindAddress: ":0"}).Attach(s.mgr, observe.New(0)); err == nil || !strings.Contains(err.Error(), "FilterProvider") {
		t.Errorf("without a filter: %v", err)
	}
}

// TestBound records until the limit: the records stay below it, and a controller with few keeps them whole.
func TestBound(t *testing.T) {
	r := observe.New(1 << 20)
	few, many := r.AddController(fakeControls{name: "few"}).NewWorker(), r.AddController(fakeControls{name: "many"}).NewWorker()
	record := func(w *observe.Worker) {
		run := w.Begin(types.NamespacedName{Name: "x"}, nil, cause.Causes{}, 0, time.Now())
		logger := r.Logger(run, logr.Discard())
		for range 200 {
			logger.Info(strings.Repeat("x", 5000))
		}
		w.End(run, observe.Outcome{Result: "success", Err: strings.Repeat("x", 1000)}, false)
	}
	record(few)
	for range 1000 {
		record(many)
	}
	if r.Size() > 1<<20 {
		t.Errorf("the records take %d", r.Size())
	}
	controllers := r.Controllers()
	if a, b := controllers[0].Stats(), controllers[1].Stats(); a.Recorded != 1 || b.Recorded < 2 || b.Forgotten == 0 || b.Totals["success"] != 1000 {
		t.Errorf("few has %+v, many has %+v", a, b)
	}
	for _, run := range r.Runs() {
		if run.Controller == "few" && run.Packed {
			t.Error("the record of few is packed")
		}
	}
}
