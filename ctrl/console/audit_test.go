package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics"
)

// trail is an audit log in memory.
type trail struct {
	mu     sync.Mutex
	events []auditv1.Event
}

func (a *trail) Write(p []byte) (int, error) {
	var e auditv1.Event
	if err := json.Unmarshal(p, &e); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	return len(p), nil
}

// audited returns an audit log of everything, and the options of a server that writes it.
func audited(t *testing.T) (*trail, auditlog.Options) {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: RequestResponse\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	audit := &trail{}
	return audit, auditlog.Options{PolicyFile: policy, Writer: audit}
}

// TestAuditedActs does every act twice: each leaves an Event, which a line of the audit log of the API server has created. They name the
// act, the object and who did it.
func TestAuditedActs(t *testing.T) {
	audit, options := audited(t)
	s := open(t, shopOptions{audit: options})
	s.create(t, "shop", "one")
	var shop corev1.ConfigMap
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop"}, &shop); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range []struct {
		form      []string
		regarding string
		what      string
	}{
		{[]string{"pause", "site", "default/shop"}, "ConfigMap default/shop", "Paused: paused request default/shop of controller site"},
		{[]string{"resume", "site", "default/shop"}, "ConfigMap default/shop", "Resumed: resumed request default/shop of controller site"},
		{[]string{"pause", "site"}, "Controller site", "Paused: paused controller site"},
		{[]string{"resume", "site"}, "Controller site", "Resumed: resumed controller site"},
		{[]string{"now", "site", "default/shop"}, "ConfigMap default/shop", "ReconcileRequested: reconciling now request default/shop of controller site"},
		{[]string{"forget", "site", "default/shop"}, "ConfigMap default/shop", "BackoffDropped: dropped the backoff of request default/shop of controller site"},
		{[]string{"level", "3"}, "Manager console", "LogLevelChanged: recording log lines up to level 3"},
		{[]string{"level", "0"}, "Manager console", "LogLevelChanged: recording log lines up to level 0"},
	} {
		reason, done, _ := strings.Cut(c.what, ": ")
		for range 2 {
			pairs := []string{"act", c.form[0]}
			for i, name := range []string{"controller", "request"}[:len(c.form)-1] {
				if c.form[0] == "level" {
					name = "level"
				}
				pairs = append(pairs, name, c.form[i+1])
			}
			if code, body := s.act(t, pairs...); code != http.StatusOK {
				t.Fatalf("%v: %d %s", pairs, code, body)
			}
			uid := types.UID("")
			if strings.HasPrefix(c.regarding, "ConfigMap") {
				uid = shop.UID
			}
			want = append(want, fmt.Sprintf("%s %s (%s) the holder of the console's token: %s", reason, c.regarding, uid, done))
		}
	}
	events := s.acts(t)
	var lines []string
	audit.mu.Lock()
	defer audit.mu.Unlock()
	for _, line := range audit.events {
		if line.ObjectRef == nil || line.ObjectRef.Resource != "events" || line.Verb != "create" {
			continue
		}
		var e eventsv1.Event
		if err := json.Unmarshal(line.RequestObject.Raw, &e); err != nil {
			t.Fatal(err)
		}
		if line.User.Username != "operator" || line.ResponseStatus.Code != http.StatusCreated || !strings.HasPrefix(line.ObjectRef.Name, reporter+"-"+strings.ToLower(e.Reason)) {
			t.Errorf("the line of %s is by %s with status %d", line.ObjectRef.Name, line.User.Username, line.ResponseStatus.Code)
		}
		lines = append(lines, actOf(&e))
	}
	slices.Sort(want)
	for name, got := range map[string][]string{"events": events, "audit log": lines} {
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// actOf is an act as its Event tells it.
func actOf(e *eventsv1.Event) string {
	name := joinName(types.NamespacedName{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name})
	return fmt.Sprintf("%s %s %s (%s) %s", e.Reason, e.Regarding.Kind, name, e.Regarding.UID, e.Note)
}

// acts returns the acts that have Events in the namespace default.
func (s *shop) acts(t *testing.T) (all []string) {
	t.Helper()
	var list eventsv1.EventList
	if err := s.client.List(t.Context(), &list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.ReportingController == reporter {
			all = append(all, actOf(e))
		}
	}
	return all
}

// unreliable loses the first request to create an object, and the answer to the second.
type unreliable struct {
	client.Client
	attempts int
	first    func() // is called at the first request
}

func (u *unreliable) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	u.attempts++
	if u.attempts == 1 {
		u.first()
		return syscall.ECONNREFUSED
	}
	err := u.Client.Create(ctx, obj.DeepCopyObject().(client.Object), o...)
	if u.attempts == 2 && err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// TestActsElsewhere: an act on a request leaves an Event of the controller if it can leave none of the object, and one Event if the server
// does not answer at once. A long request takes no room from the rest. Pages show the act before.
func TestActsElsewhere(t *testing.T) {
	s := open(t, shopOptions{change: func(o *manager.Options) {
		o.Logger = funcr.New(func(_, line string) {
			if strings.Contains(line, "not recorded") || len(line) > 2000 {
				t.Error(line)
			}
		}, funcr.Options{})
	}})
	ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}
	if err := errors.Join(s.client.Create(t.Context(), ending), s.client.Delete(t.Context(), ending)); err != nil {
		t.Fatal(err)
	}
	changes := s.console.recorder.Changes()
	s.console.events = &unreliable{Client: s.console.events, first: func() {
		if s.console.recorder.Changes() == changes {
			t.Error("the pages wait for the Event")
		}
	}}
	if code, body := s.act(t, "act", "level", "level", "1"); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	name := func(n int) string { return "default/" + strings.Repeat("n", n-len("default/")) }
	want := []string{"LogLevelChanged Manager console () the holder of the console's token: recording log lines up to level 1"}
	for _, c := range []struct{ request, regarding, note string }{
		{"default/absent", "ConfigMap default/absent", "default/absent"},
		{"ending/x", "Controller site", "ending/x"},
		{"gone/x", "Controller site", "gone/x"},
		{"Bad_NS/x", "Controller site", "Bad_NS/x"},
		{"a%/x", "Controller site", "a%/x"},
		{name(60_000), "ConfigMap " + name(253+len("default/")) + "…", name(300) + "…"},
	} {
		if code, body := s.act(t, "act", "now", "controller", "site", "request", c.request); code != http.StatusOK {
			t.Fatalf("%.20s: %d %s", c.request, code, body)
		}
		want = append(want, fmt.Sprintf("ReconcileRequested %s () the holder of the console's token: reconciling now request %s of controller site", c.regarding, c.note))
	}
	got := s.acts(t)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAuditLog compares the writes of all reconciles of 16 workers with the audit log of the API server: no write is
// missing, and none is invented. The figures equal the metrics.
func TestAuditLog(t *testing.T) {
	audit, options := audited(t)
	before := figures(t)
	s := open(t, shopOptions{workers: 16, audit: options})
	const n = 60
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			name := fmt.Sprint("shop-", i)
			s.make(t, name, "m0")
			for j := range 4 {
				s.patch(t, name, "motto", fmt.Sprint("m", j))
			}
		})
	}
	group.Wait()
	s.set(t, "shop-0", "fail", "once")
	s.set(t, "shop-0", "fail", "")

	var recorded, logged []string
	for _, run := range s.console.recorder.Runs() {
		r := run.Copy()
		if slices.Max(r.Dropped[:]) > 0 {
			t.Fatalf("reconcile %d has %v that are not recorded", r.ID, r.Dropped)
		}
		for _, w := range r.Writes {
			recorded = append(recorded, fmt.Sprintln(w.Verb, strings.ToLower(w.Type.GVK.Kind)+"s", observe.NameText(w.Key), w.SubResource, w.Version, w.Err == ""))
		}
	}
	audit.mu.Lock()
	for _, e := range audit.events {
		switch {
		case e.User.Username != "operator" || e.ObjectRef == nil || e.ObjectRef.Resource == "events":
		case slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb):
			version := ""
			if ok := e.ResponseStatus.Code < 300; ok {
				var response struct {
					Metadata struct{ ResourceVersion string }
				}
				if err := json.Unmarshal(e.ResponseObject.Raw, &response); err != nil {
					t.Fatal(err)
				}
				version = response.Metadata.ResourceVersion
			}
			logged = append(logged, fmt.Sprintln(e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace+"/"+e.ObjectRef.Name,
				e.ObjectRef.Subresource, version, e.ResponseStatus.Code < 300))
		}
	}
	audit.mu.Unlock()
	slices.Sort(recorded)
	slices.Sort(logged)
	if len(logged) < 4*n || !slices.Equal(recorded, logged) {
		t.Errorf("%d writes are recorded, and %d are in the audit log", len(recorded), len(logged))
		for _, line := range recorded {
			if !slices.Contains(logged, line) {
				t.Log("invented: ", line)
			}
		}
		for _, line := range logged {
			if !slices.Contains(recorded, line) {
				t.Log("missing: ", line)
			}
		}
	}
	s.equalsMetrics(t, before)
	if c := controllerOf(s.controller(t, "site")); c.Errors == 0 || c.P50 <= 0 || c.P99 < c.P50 || c.Workers != 16 {
		t.Errorf("the figures are %+v", c)
	}
	// The first cause of every chain is a write of a user: each write of a reconcile leads up to one.
	chain, ok := s.console.chain(s.lastWriting())
	if !ok || chain.Root.Origin != nil || chain.Root.Kind != "ConfigMap" || len(chain.Steps) < 2 {
		t.Errorf("the chain is %+v", chain)
	}
}

// lastWriting returns the last reconcile of the tagger that wrote.
func (s *shop) lastWriting() (id uint64) {
	for _, run := range s.console.recorder.Runs() {
		if r := run.Copy(); r.Controller == "tagger" && len(r.Writes) > 0 {
			id = max(id, r.ID)
		}
	}
	return id
}

// equalsMetrics compares the figures of the page Now with the metrics, which count from before on.
func (s *shop) equalsMetrics(t *testing.T, before map[string]float64) {
	t.Helper()
	after := figures(t)
	for _, c := range s.console.now().Controllers {
		want := map[string]float64{"workers": float64(c.Workers), "ready": float64(c.Ready), "busy": float64(c.Processing), "errors": float64(c.Errors), "ended": float64(c.Done())}
		for result, n := range c.Totals {
			want[result] = float64(n)
		}
		for figure, n := range want {
			key := c.Name + " " + figure
			got := after[key] - before[key]
			if figure == "workers" { // of the last manager
				got = after[key]
			}
			if got != n {
				t.Errorf("%s: %v, and %v in the metrics", key, n, got)
			}
		}
		if took, seconds := s.took(c.Name), after[c.Name+" seconds"]-before[c.Name+" seconds"]; math.Abs(took-seconds) > 1e-6 {
			t.Errorf("%s: the reconciles took %v s, and %v s in the metrics", c.Name, took, seconds)
		}
	}
}

// took is how many seconds the recorded reconciles of a controller took.
func (s *shop) took(controller string) (seconds float64) {
	for _, run := range s.console.recorder.Runs() {
		if r := run.Copy(); r.Controller == controller {
			seconds += r.Took.Seconds()
		}
	}
	return seconds
}

// figures returns figures of the metrics, by controller.
func figures(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			controller := label(m, "controller")
			switch family.GetName() {
			case "controller_runtime_reconcile_total":
				all[controller+" "+label(m, "result")] = m.GetCounter().GetValue()
			case "controller_runtime_reconcile_errors_total":
				all[controller+" errors"] = m.GetCounter().GetValue()
			case "controller_runtime_max_concurrent_reconciles":
				all[controller+" workers"] = m.GetGauge().GetValue()
			case "controller_runtime_active_workers":
				all[controller+" busy"] = m.GetGauge().GetValue()
			case "workqueue_depth":
				all[label(m, "name")+" ready"] += m.GetGauge().GetValue()
			case "controller_runtime_reconcile_time_seconds":
				all[controller+" ended"] = float64(m.GetHistogram().GetSampleCount())
				all[controller+" seconds"] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return all
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
