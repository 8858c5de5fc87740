package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/internal/fakeapi"
)

func newServer() *fakeapi.Server {
	return fakeapi.New(corev1.SchemeGroupVersion.WithKind("Event"), eventsv1.SchemeGroupVersion.WithKind("Event"))
}

// requests returns method, path and body of the requests since the last call.
func requests(s *fakeapi.Server) (all []string) {
	for _, r := range s.Requests() {
		all = append(all, r.Method+" "+r.Path+" "+r.Body)
	}
	return all
}

// run runs f with a provider and the server that it writes to, in virtual time,
// and afterwards stops it.
func run(t *testing.T, f func(t *testing.T, p *Provider, s *fakeapi.Server, stop func()), change ...func(*Options)) (log []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var mu sync.Mutex
		o := Options{
			Config:     &rest.Config{Host: "http://server", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
			HTTPClient: &http.Client{Transport: s},
			Scheme:     scheme.Scheme,
			Logger: funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, args)
			}, funcr.Options{}),
		}
		for _, c := range change {
			c(&o)
		}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx)
		}()
		stop := func() {
			cancel()
			<-done
		}
		defer stop()
		f(t, p, s, stop)
	})
	return log
}

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u"}}

func TestCore(t *testing.T) {
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		r := p.GetEventRecorderFor("me")
		r.Eventf(pod, "Normal", "Created", "made %d", 1)
		synctest.Wait()
		got := requests(s)
		if len(got) != 1 || !strings.HasPrefix(got[0], "POST /api/v1/namespaces/a/events ") {
			t.Fatalf("got %q", got)
		}
		var e corev1.Event
		if err := json.Unmarshal([]byte(got[0][strings.Index(got[0], "{"):]), &e); err != nil {
			t.Fatal(err)
		}
		want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "x", UID: "u"}
		if e.InvolvedObject != want || e.Message != "made 1" || e.Source.Component != "me" || e.Count != 1 || e.Reason != "Created" {
			t.Errorf("got %+v", e)
		}

		// Repeated events are counted; those that have expired on the server are created again.
		time.Sleep(time.Second)
		r.Event(pod, "Normal", "Created", "made 1")
		synctest.Wait()
		if got := requests(s); len(got) != 1 || !strings.HasPrefix(got[0], "PATCH ") || !strings.Contains(got[0], `"count":2`) {
			t.Errorf("got %q", got)
		}
		for _, e := range s.Objects("events") {
			s.Delete("events", "a", e.GetName())
		}
		r.AnnotatedEventf(pod, nil, "Normal", "Created", "made %d", 1)
		synctest.Wait()
		if got := requests(s); len(got) != 2 || !strings.HasPrefix(got[1], "POST ") || !strings.Contains(got[1], `"count":3`) {
			t.Errorf("got %q", got)
		}

		// Events of cluster-scoped objects are in the default namespace.
		r.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Warning", "Gone", "away")
		synctest.Wait()
		if got := requests(s); len(got) != 1 || !strings.HasPrefix(got[0], "POST /api/v1/namespaces/default/events ") {
			t.Errorf("got %q", got)
		}
	})
	if len(log) != 0 {
		t.Errorf("logged %q", log)
	}
}

func TestEvents(t *testing.T) {
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		r := p.GetEventRecorder("me")
		r.Eventf(pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Normal", "Created", "Create", "made %d", 1)
		synctest.Wait()
		got := requests(s)
		if len(got) != 1 || !strings.HasPrefix(got[0], "POST /apis/events.k8s.io/v1/namespaces/a/events ") {
			t.Fatalf("got %q", got)
		}
		var e eventsv1.Event
		if err := json.Unmarshal([]byte(got[0][strings.Index(got[0], "{"):]), &e); err != nil {
			t.Fatal(err)
		}
		if e.Regarding.Name != "x" || e.Related.Name != "n" || e.Note != "made 1" || e.Action != "Create" || e.Series != nil ||
			e.ReportingController != "me" || !strings.HasPrefix(e.ReportingInstance, "me-") || e.EventTime.IsZero() {
			t.Errorf("got %+v", e)
		}

		time.Sleep(time.Minute)
		r.Eventf(pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Normal", "Created", "Create", "made %d", 1)
		synctest.Wait()
		if got := requests(s); len(got) != 1 || !strings.HasPrefix(got[0], "PATCH ") || !strings.Contains(got[0], `"count":2`) || !strings.HasSuffix(strings.Fields(got[0])[1], e.Name) {
			t.Errorf("got %q", got)
		}
		// Another reason is another event, and so is the same after a while.
		r.Eventf(pod, nil, "Normal", "Started", "Create", "made 2")
		time.Sleep(seriesEnd)
		r.AnnotatedEventf(pod, nil, map[string]string{"k": "v"}, "Normal", "Started", "Create", "made 2")
		synctest.Wait()
		if got := requests(s); len(got) != 2 || !strings.HasPrefix(got[0], "POST") || !strings.HasPrefix(got[1], "POST") || !strings.Contains(got[1], `"annotations":{"k":"v"}`) {
			t.Errorf("got %q", got)
		}
	})
	if len(log) != 0 {
		t.Errorf("logged %q", log)
	}
}

// TestAnnotationsOfTheCaller: annotations may be changed after an event was recorded.
func TestAnnotationsOfTheCaller(t *testing.T) {
	for name, record := range map[string]func(*Provider, map[string]string){
		"core": func(p *Provider, annotations map[string]string) {
			p.GetEventRecorderFor("me").AnnotatedEventf(pod, annotations, "Normal", "Created", "made")
		},
		"events": func(p *Provider, annotations map[string]string) {
			p.GetEventRecorder("me").AnnotatedEventf(pod, nil, annotations, "Normal", "Created", "Create", "made")
		},
	} {
		run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
			annotations := map[string]string{"k": "v"}
			record(p, annotations)
			annotations["k"] = "changed"
			synctest.Wait()
			if got := requests(s); len(got) != 1 || !strings.Contains(got[0], `"annotations":{"k":"v"}`) {
				t.Errorf("%s: got %q", name, got)
			}
		})
	}
}

// Events that differ in their notes are a series: it is written when it begins, while it goes on and
// when it ends. It holds back no event that is another one.
func TestSeries(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got := requests(s)
			if len(got) != len(want) {
				t.Fatalf("requests %q, want %q", got, want)
			}
			for n := range want {
				method, part, _ := strings.Cut(want[n], " ")
				if !strings.HasPrefix(got[n], method) || !strings.Contains(got[n], part) {
					t.Errorf("request %q, want %q", got[n], want[n])
				}
			}
		}
		r := p.GetEventRecorder("me")
		for n := range 100 {
			r.Eventf(pod, nil, "Normal", "Again", "Try", "attempt %d", n)
		}
		r.Eventf(pod, nil, "Warning", "Failed", "Try", "no more")
		expect(`POST "note":"attempt 0"`, `PATCH {"series":{"count":2`, `POST "type":"Warning"`)
		other := pod.DeepCopy()
		other.Name = "y"
		r.Eventf(other, nil, "Normal", "Again", "Try", "attempt 0")
		expect(`POST "name":"y"`)

		// An event every five minutes keeps the series alive, which is written every half hour.
		for range 6 {
			time.Sleep(5 * time.Minute)
			r.Eventf(pod, nil, "Normal", "Again", "Try", "and again")
		}
		time.Sleep(time.Minute)
		expect(`PATCH {"series":{"count":106`)
		r.Eventf(pod, nil, "Normal", "Again", "Try", "and again")
		time.Sleep(seriesEnd)
		expect(`PATCH {"series":{"count":107`)
		// What has ended is not written again, and nothing is periodic any more.
		time.Sleep(24 * time.Hour)
		expect()
		r.Eventf(pod, nil, "Normal", "Again", "Try", "anew")
		expect(`POST "note":"anew"`)
	})
}

// A long name leaves a reporting instance that servers accept.
func TestLongName(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		p.GetEventRecorder(strings.Repeat("x", maxInstance-1)).Eventf(pod, nil, "Normal", "R", "A", "m")
		synctest.Wait()
		var e eventsv1.Event
		got := requests(s)
		if len(got) != 1 || json.Unmarshal([]byte(got[0][strings.Index(got[0], "{"):]), &e) != nil {
			t.Fatalf("got %q", got)
		}
		if n := len(e.ReportingInstance); n > maxInstance {
			t.Errorf("the reporting instance has %d bytes", n)
		}
	})
}

// The count of a series arrives, however long the server does not take it, and events are written as soon
// as it takes these.
func TestCountOutlastsServer(t *testing.T) {
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		var available atomic.Bool
		s.Respond = func(r fakeapi.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && !available.Load() {
				return nil, errors.New("no route to host")
			}
			return nil, nil
		}
		r := p.GetEventRecorder("me")
		for range 2 {
			r.Eventf(pod, nil, "Normal", "Twice", "Try", "")
		}
		for range 7 {
			r.Eventf(pod, nil, "Normal", "Again", "Try", "")
		}
		time.Sleep(seriesEnd + time.Hour)
		r.Eventf(pod, nil, "Normal", "Other", "Try", "")
		synctest.Wait()
		if n := len(s.Objects("events")); n != 3 {
			t.Errorf("%d events", n)
		}
		if n := len(requests(s)); n > 3+100 {
			t.Errorf("%d requests in an hour", n)
		}
		available.Store(true)
		time.Sleep(maxRetry)
		synctest.Wait()
		counts := map[string]int32{}
		for _, obj := range s.Objects("events") {
			if e := obj.(*eventsv1.Event); e.Series != nil {
				counts[e.Reason] = e.Series.Count
			}
		}
		if want := map[string]int32{"Twice": 2, "Again": 7}; !maps.Equal(counts, want) {
			t.Errorf("counts %v, want %v", counts, want)
		}
	})
	if len(log) != 0 {
		t.Errorf("logged %q", log)
	}
}

// A count that the server refuses does not hold back the others, neither while the recorder runs nor when it stops.
func TestRefusedCounts(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, stop func()) {
		s.Respond = func(r fakeapi.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.Path, "/refused/") {
				return nil, errors.New("failed calling webhook")
			}
			return nil, nil
		}
		r := p.GetEventRecorder("me")
		refused := pod.DeepCopy()
		refused.Namespace = "refused"
		count := func(about *corev1.Pod, n int) {
			for range n {
				r.Eventf(about, nil, "Normal", "Again", "Try", "")
			}
		}
		check := func(when string, want ...int32) {
			t.Helper()
			var counts []int32
			for _, obj := range s.Objects("events") {
				if e := obj.(*eventsv1.Event); e.Namespace != "refused" && e.Series != nil {
					counts = append(counts, e.Series.Count)
				}
			}
			if slices.Sort(counts); !slices.Equal(counts, want) {
				t.Errorf("%s: the counts are %v, want %v", when, counts, want)
			}
		}
		count(refused, 3)
		count(pod, 3)
		time.Sleep(2 * seriesEnd)
		synctest.Wait()
		check("running", 3)
		count(refused, 4)
		count(pod, 5)
		synctest.Wait()
		stop()
		check("stopped", 3, 5)
	})
}

// Thousands of series that end at once do not hold back events, and no event is dropped.
func TestManyCounts(t *testing.T) {
	var took atomic.Int64
	slow := func(o *Options) {
		server := o.HTTPClient.Transport
		o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Duration(took.Load()))
			return server.RoundTrip(r)
		})}
	}
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		const ending, added = 2 * queueLength, 3 * queueLength / 2
		r := p.GetEventRecorder("me")
		for n := range ending {
			for range 3 {
				r.Eventf(pod, nil, "Normal", fmt.Sprint("R", n), "Try", "")
			}
			if n%200 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		took.Store(int64(50 * time.Millisecond))
		time.Sleep(seriesEnd)
		s.Requests()
		for n := range added {
			r.Eventf(pod, nil, "Normal", fmt.Sprint("New", n), "Try", "")
			time.Sleep(80 * time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		patched, created := 0, 0
		for _, request := range s.Requests() {
			switch request.Method {
			case http.MethodPatch:
				patched++
			case http.MethodPost:
				created++
			}
		}
		if patched != ending || created != added {
			t.Errorf("%d counts and %d events were written", patched, created)
		}
	}, slow)
	if len(log) != 0 {
		t.Errorf("logged %q", log[0])
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The counts of series are written when the recorder stops.
func TestStopWritesCounts(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, stop func()) {
		for range 3 {
			p.GetEventRecorder("me").Eventf(pod, nil, "Normal", "Again", "Try", "")
		}
		synctest.Wait()
		stop()
		if e := s.Objects("events")[0].(*eventsv1.Event); e.Series == nil || e.Series.Count != 3 {
			t.Errorf("got %+v", e.Series)
		}
	})
}

// However many series there are, the memory is bounded, and thousands of counts wait before one is lost.
func TestManySeries(t *testing.T) {
	dropped := 0
	s := newSeries(func(*eventsv1.Event) { dropped++ })
	now := time.Now()
	for n := range maxSeries + 100 {
		if addThree(t, s, fmt.Sprint(n), now); n < maxSeries && dropped > 0 {
			t.Fatalf("a count is lost after %d series", n)
		}
	}
	if len(s.running) != maxSeries || len(s.due) != maxSeries || dropped < 100 {
		t.Errorf("%d series are running, %d are due, %d were dropped", len(s.running), len(s.due), dropped)
	}
	now = now.Add(seriesEnd)
	s.sweep(now)
	if len(s.running) != 0 || len(s.due) != maxSeries {
		t.Errorf("%d series are running after their end, %d are due", len(s.running), len(s.due))
	}
	for range maxSeries {
		if event, ok := s.next(now); !ok || event.Series.Count != 3 {
			t.Fatalf("%+v is due, %v", event, ok)
		}
		s.written(now, false)
	}
	if s.fires() != nil {
		t.Error("the timer is set")
	}
}

// An event that comes when a series is over, and not swept yet, begins another one, and both are written.
func TestSeriesAfterSeries(t *testing.T) {
	s := newSeries(nil)
	now := time.Now()
	addThree(t, s, "R", now)
	addThree(t, s, "R", now.Add(seriesEnd))
	for n := range 2 {
		if event, ok := s.next(now); !ok || event.Series.Count != 3 {
			t.Fatalf("series %d: %+v is due, %v", n, event, ok)
		}
		s.written(now, false)
	}
}

// addThree adds three events of a series.
func addThree(t *testing.T, s *series, reason string, now time.Time) {
	t.Helper()
	for i := range 3 {
		if first := s.add(&eventsv1.Event{Reason: reason, EventTime: metav1.NewMicroTime(now)}); first != (i == 0) {
			t.Fatalf("event %d: %v", i, first)
		}
	}
}

// TestSameInstant checks that events of one instant have different names, even
// when another process has taken the name.
func TestSameInstant(t *testing.T) {
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		core, events := p.GetEventRecorderFor("me"), p.GetEventRecorder("me")
		next := max(time.Now().UnixNano(), lastName.Load()+1)
		for i := range int64(2) {
			s.Put(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("x.%x", next+i)}})
		}
		for i := range 3 {
			core.Eventf(pod, "Normal", "R", "core %d", i)
			events.Eventf(pod, nil, "Normal", fmt.Sprint("R", i), "A", "events")
		}
		synctest.Wait()
		if n := len(s.Objects("events")); n != 2+6 {
			t.Errorf("%d events arrived", n-2)
		}
	})
	if len(log) != 0 {
		t.Errorf("logged %q", log)
	}
}

// TestBadServer checks the handling of events that cannot be written.
func TestBadServer(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "x", nil)
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := []struct {
		name string
		err  error
		want int    // requests in all, when the server fails for good
		log  string // the log
	}{
		{"refused", invalid, 1, "the server rejected it"},
		{"namespace going", terminating, 1, ""},
		{"unreachable", errors.New("no route to host"), 5, "retries exhausted"},
		{"overloaded", apierrors.NewServiceUnavailable("busy"), 5, "retries exhausted"},
	}
	for _, tt := range tests {
		for _, api := range []string{"core", "events"} {
			t.Run(tt.name+" "+api, func(t *testing.T) {
				log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
					s.Fail(tt.err)
					if api == "core" {
						p.GetEventRecorderFor("me").Event(pod, "Normal", "R", "m")
					} else {
						p.GetEventRecorder("me").Eventf(pod, nil, "Normal", "R", "A", "m")
					}
					time.Sleep(time.Minute)
					if got := requests(s); len(got) != tt.want {
						t.Errorf("%d requests: %q", len(got), got)
					}
				})
				if text := strings.Join(log, "\n"); (tt.log == "") != (text == "") || !strings.Contains(text, tt.log) {
					t.Errorf("logged %q, want %q", log, tt.log)
				}
			})
		}
	}
}

func TestRecovers(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		failures := 2
		s.Respond = func(fakeapi.Request) (*http.Response, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("no route to host")
			}
			return nil, nil
		}
		p.GetEventRecorder("me").Eventf(pod, nil, "Normal", "R", "A", "m")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.Objects("events")) != 1 {
			t.Errorf("got %q", requests(s))
		}
	})
}

// TestBadEvents checks that a recorder cannot be made to fail.
func TestBadEvents(t *testing.T) {
	log := run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, _ func()) {
		p.GetEventRecorderFor("me").Event(nil, "Normal", "R", "m")
		p.GetEventRecorderFor("me").Event(pod, "Strange", "R", "m")
		p.GetEventRecorder("me").Eventf(&unstructured.Unstructured{}, nil, "Normal", "R", "A", "m")
		p.GetEventRecorder("me").Eventf(pod, nil, "", "R", "A", "m")
		synctest.Wait()
		if got := requests(s); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		p.GetEventRecorder("me").Eventf(pod, &unstructured.Unstructured{}, "Normal", "R", "A", "%s", strings.Repeat("ä", maxNote))
		synctest.Wait()
		got := requests(s)
		var e eventsv1.Event
		if len(got) != 1 || json.Unmarshal([]byte(got[0][strings.Index(got[0], "{"):]), &e) != nil {
			t.Fatalf("got %q", got)
		}
		if len(e.Note) > maxNote || !strings.HasSuffix(e.Note, "ä…") {
			t.Errorf("%d bytes, ending in %q", len(e.Note), e.Note[len(e.Note)-8:])
		}
	})
	if len(log) != 4 {
		t.Errorf("logged %q", log)
	}
}

func TestStop(t *testing.T) {
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, stop func()) {
		r := p.GetEventRecorderFor("me")
		for i := range 5 {
			r.Eventf(pod, "Normal", "R", "m%d", i)
		}
		stop()
		if got := len(requests(s)); got != 5 {
			t.Errorf("%d of 5 were written", got)
		}
		r.Event(pod, "Normal", "R", "late")
		p.GetEventRecorder("me").Eventf(pod, nil, "Normal", "R", "A", "late")
		synctest.Wait()
		if got := requests(s); len(got) != 0 {
			t.Errorf("late events were written: %q", got)
		}
	})
	// An unreachable server does not delay Stop.
	run(t, func(t *testing.T, p *Provider, s *fakeapi.Server, stop func()) {
		s.Fail(errors.New("no route to host"))
		for i := range 5 {
			p.GetEventRecorderFor("me").Eventf(pod, "Normal", "R", "m%d", i)
		}
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took > flushTime {
			t.Errorf("stopping took %v", took)
		}
	})
}

// TestOverflow checks that recording does not block while Run does not write.
func TestOverflow(t *testing.T) {
	p, err := New(Options{Config: &rest.Config{}, HTTPClient: http.DefaultClient, Scheme: scheme.Scheme, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	for range queueLength + 10 {
		p.GetEventRecorder("me").Eventf(pod, nil, "Normal", "R", "A", "m")
	}
	if len(p.queue) != queueLength {
		t.Errorf("%d are waiting", len(p.queue))
	}
}

// TestOwnBroadcaster checks that a program's own broadcaster is used, and left
// running.
func TestOwnBroadcaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := record.NewBroadcaster()
		defer b.Shutdown()
		s := newServer()
		p, err := New(Options{
			Config:      &rest.Config{Host: "http://server", ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
			HTTPClient:  &http.Client{Transport: s},
			Scheme:      scheme.Scheme,
			Broadcaster: b,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx)
		}()
		synctest.Wait()
		p.GetEventRecorderFor("me").Event(pod, "Normal", "R", "m")
		synctest.Wait()
		cancel()
		<-done
		if got := requests(s); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "POST /api/v1/namespaces/a/events ") }) {
			t.Errorf("got %q", got)
		}
	})
}

// TestRunKeepsNothing: the limit of the last requests ends with them, and does not keep the context.
func TestRunKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Config: &rest.Config{Host: "http://server"}, HTTPClient: &http.Client{Transport: newServer()}, Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		value := runStopped(t, p)
		runtime.GC()
		if value.Value() != nil {
			t.Error("the context is kept")
		}
	})
}

// runStopped runs a provider with a context that is done, and returns a value that only the context has.
func runStopped(t *testing.T, p *Provider) weak.Pointer[[64]byte] {
	type key struct{}
	value := new([64]byte)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, value))
	cancel()
	p.Run(ctx)
	synctest.Wait()
	time.Sleep(time.Nanosecond) // the next timer takes the ones that were stopped out of the heap of timers
	return weak.Make(value)
}
