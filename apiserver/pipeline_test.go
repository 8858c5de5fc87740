package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"flyball.dev/storage/memory"
)

// TestPipelineOrder pins the order of the filters, since each relies on those before it.
func TestPipelineOrder(t *testing.T) {
	want := "recover context info warnings lifetime caching authentication audit impersonation limit authorization"
	var names []string
	for _, s := range (&Server{}).pipeline() {
		names = append(names, s.name)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the filters are\n%s, want\n%s", got, want)
	}
}

func TestChainRunsFiltersInOrder(t *testing.T) {
	var passed []string
	record := func(name string) filter {
		return filter{name, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				passed = append(passed, name)
				next.ServeHTTP(w, r)
			})
		}}
	}
	end := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = append(passed, "end") })
	chain([]filter{record("first"), record("second")}, end).ServeHTTP(nil, nil)
	if got := strings.Join(passed, " "); got != "first second end" {
		t.Errorf("passed %s", got)
	}
}

func TestPanicIsRecovered(t *testing.T) {
	handler := (&Server{}).recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "oops") {
		t.Errorf("answered %d %q; want 500 without the reason", w.Code, w.Body)
	}
}

// bootstrapped is the part of the health report about the post-start hooks.
const bootstrapped = "[+]poststarthook/start-system-namespaces-controller ok\n[+]poststarthook/rbac/bootstrap-roles ok\n" +
	"[+]poststarthook/scheduling/bootstrap-system-priority-classes ok\n[+]autoregister-completion ok\n"

func TestHealth(t *testing.T) {
	fails := errors.New("the disk is full")
	for _, tc := range []struct {
		path        string
		ready       bool
		read, write error
		status      int
		body        string
	}{
		{"/healthz", true, nil, nil, 200, "ok"},
		{"/livez", false, nil, nil, 200, "ok"},
		{"/readyz", true, nil, nil, 200, "ok"},
		{"/readyz", false, nil, nil, 500, "[+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]storage ok\n" + bootstrapped + "[-]shutdown failed: reason withheld\nreadyz check failed\n"},
		{"/readyz?verbose", true, nil, nil, 200, "[+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]storage ok\n" + bootstrapped + "[+]shutdown ok\nreadyz check passed\n"},
		{"/livez", true, fails, nil, 500, "[+]ping ok\n[-]etcd failed: reason withheld\n" + bootstrapped + "livez check failed\n"},
		{"/livez?exclude=etcd", true, fails, nil, 200, "ok"},
		{"/livez?verbose&exclude=etcd&exclude=b&exclude=a", true, fails, nil, 200, "[+]ping ok\n[+]etcd excluded: ok\n" + bootstrapped +
			"warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n"},
		{"/livez", true, nil, fails, 200, "ok"},
		{"/readyz/storage", true, nil, fails, 500, "internal server error: the disk is full\n"},
		{"/livez/etcd", true, fails, nil, 500, "internal server error: the disk is full\n"},
		{"/livez/ping?verbose", true, fails, nil, 200, "ok"},
		{"/readyz/poststarthook/rbac/bootstrap-roles", true, nil, nil, 200, "ok"},
		{"/readyz/shutdown", true, nil, nil, 200, "ok"},
		{"/readyz/shutdown", false, nil, nil, 500, "internal server error: process is shutting down\n"},
		{"/readyz/absent", true, nil, nil, 404, "404 page not found\n"},
		{"/livez/shutdown", true, nil, nil, 404, "404 page not found\n"},
	} {
		h := &health{ready: new(atomic.Bool), read: func(context.Context) error { return tc.read }, write: func(context.Context) error { return tc.write }}
		h.ready.Store(tc.ready)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
		if w.Code != tc.status || w.Body.String() != tc.body {
			t.Errorf("%s, ready %v: %d %q; want %d %q", tc.path, tc.ready, w.Code, w.Body, tc.status, tc.body)
		}
	}
}

// TestHealthReadsTheStorage closes the storage of a server, which is then neither live nor ready.
func TestHealthReadsTheStorage(t *testing.T) {
	store := memory.New(memory.Options{})
	read := reads(store)
	if err := read(t.Context()); err != nil {
		t.Error(err)
	}
	store.Close()
	if read(t.Context()) == nil {
		t.Error("a storage that is closed can be read")
	}
}

// TestReadyChecks runs a check of the options, which passes and then fails.
func TestReadyChecks(t *testing.T) {
	var trouble error
	h := &health{ready: new(atomic.Bool), read: passes, write: passes, checks: []ReadyCheck{
		{Name: "controller/x", Check: func(context.Context) error { return trouble }},
		{Name: "kms", Healthz: true, Check: passes}}}
	h.ready.Store(true)
	get := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return fmt.Sprintf("%d %s", w.Code, w.Body)
	}
	for _, tc := range []struct {
		path    string
		trouble error
		want    string
	}{
		{"/readyz", nil, "200 ok"},
		{"/readyz?verbose", nil, "200 [+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]storage ok\n[+]controller/x ok\n[+]kms ok\n" + bootstrapped + "[+]shutdown ok\nreadyz check passed\n"},
		{"/readyz", errors.New("it failed"), "500 [+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]storage ok\n[-]controller/x failed: reason withheld\n[+]kms ok\n" + bootstrapped + "[+]shutdown ok\nreadyz check failed\n"},
		{"/readyz/controller/x", errors.New("it failed"), "500 internal server error: it failed\n"},
		{"/readyz/shutdown", errors.New("it failed"), "200 ok"},
		{"/livez", errors.New("it failed"), "200 ok"},
		{"/healthz", errors.New("it failed"), "200 ok"},
		{"/healthz?verbose", nil, "200 [+]ping ok\n[+]etcd ok\n[+]kms ok\n" + bootstrapped + "healthz check passed\n"},
		{"/livez?verbose", nil, "200 [+]ping ok\n[+]etcd ok\n" + bootstrapped + "livez check passed\n"},
	} {
		trouble = tc.trouble
		if got := get(tc.path); got != tc.want {
			t.Errorf("%s with %v: %q, want %q", tc.path, trouble, got, tc.want)
		}
	}
}
