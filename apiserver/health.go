package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"flyball.dev/storage"
)

// ReadyCheck is a condition for the server to be ready. /readyz reports it by name.
type ReadyCheck struct {
	Name string
	// Check returns nil if the condition holds. Its context is the one of the request. Only /readyz/NAME shows the text of
	// the error. Check must return quickly and be safe for concurrent use.
	Check func(context.Context) error
	// Healthz makes the check one of /healthz too. No ReadyCheck is one of /livez.
	Healthz bool
}

// health serves /healthz, /livez and /readyz, and each check at a path below them. The checks have the same names as in
// kube-apiserver.
type health struct {
	ready *atomic.Bool
	// read reads from the storage, and write reports whether the storage can write.
	read, write func(context.Context) error
	checks      []ReadyCheck
}

// healthTimeout bounds the read from the storage, as in kube-apiserver.
const healthTimeout = 2 * time.Second

// reads returns a function that reads from a storage.
func reads(s storage.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		_, err := s.Range(ctx, storage.Query{Path: "/health", Limit: 1})
		return err
	}
}

// writes returns a function that reports whether a storage can write, as far as it knows.
func writes(s storage.Store) func(context.Context) error {
	if c, ok := s.(storage.Checker); ok {
		return func(context.Context) error { return c.Healthy() }
	}
	return passes
}

// passes is a check that never fails.
func passes(context.Context) error { return nil }

var errShuttingDown = errors.New("process is shutting down")

// bootstrapHooks are the post-start hooks of kube-apiserver that clients wait for. This server does their work before
// it begins to serve, so these checks never fail.
var bootstrapHooks = []string{"poststarthook/start-system-namespaces-controller", "poststarthook/rbac/bootstrap-roles",
	"poststarthook/scheduling/bootstrap-system-priority-classes", "autoregister-completion"}

// of returns the checks of an endpoint.
func (h *health) of(endpoint string) []ReadyCheck {
	checks := []ReadyCheck{{Name: "ping", Check: passes}, {Name: "etcd", Check: h.read}}
	if endpoint == "readyz" {
		checks = append(checks, ReadyCheck{Name: "etcd-readiness", Check: h.read}, ReadyCheck{Name: "storage", Check: h.write})
	}
	for _, c := range h.checks {
		if endpoint == "readyz" || endpoint == "healthz" && c.Healthz {
			checks = append(checks, c)
		}
	}
	for _, name := range bootstrapHooks {
		checks = append(checks, ReadyCheck{Name: name, Check: passes})
	}
	if endpoint == "readyz" {
		checks = append(checks, ReadyCheck{Name: "shutdown", Check: func(context.Context) error {
			if !h.ready.Load() {
				return errShuttingDown
			}
			return nil
		}})
	}
	return checks
}

// ServeHTTP runs all checks of an endpoint, or the one check that the path names, and reports the results.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint, only, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	checks := h.of(endpoint)
	if only == "" {
		h.serveAll(w, r, endpoint, checks)
		return
	}
	i := slices.IndexFunc(checks, func(c ReadyCheck) bool { return c.Name == only })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	if err := checks[i].Check(r.Context()); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "ok")
}

// serveAll runs all checks except the ones that the query excludes. It lists the results only after a failure or with
// the parameter verbose.
func (h *health) serveAll(w http.ResponseWriter, r *http.Request, endpoint string, checks []ReadyCheck) {
	query := r.URL.Query()
	unknown := map[string]bool{}
	for _, name := range query["exclude"] {
		unknown[name] = true
	}
	var report strings.Builder
	healthy := true
	for _, c := range checks {
		if slices.Contains(query["exclude"], c.Name) {
			delete(unknown, c.Name)
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
		} else if c.Check(r.Context()) == nil {
			fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
		} else {
			healthy = false
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
		}
	}
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(unknown))
		for i := range names {
			names[i] = strconv.Quote(names[i])
		}
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(names, ","))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !healthy:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", report.String(), endpoint)
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", report.String(), endpoint)
	default:
		fmt.Fprint(w, "ok")
	}
}
