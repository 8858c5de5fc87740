package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// ReadyCheck is a condition for the server to be ready. /readyz reports it under its name.
type ReadyCheck struct {
	Name string
	// Check returns nil if the condition holds. Only /readyz/NAME shows the text of its error. It must
	// return quickly and be safe for concurrent use.
	Check func() error
}

// health serves /healthz, /livez and /readyz, and each of their checks below them.
type health struct {
	ready  *atomic.Bool
	checks []ReadyCheck
}

// check is the result of one check.
type check struct {
	name string
	err  error
}

var errNotServing = errors.New("the server is not serving")

// ServeHTTP runs the checks of an endpoint, or the one that the path names, and reports their
// results.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint, only, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	checks := h.run(endpoint)
	var report strings.Builder
	healthy, known := true, only == ""
	for _, c := range checks {
		if only != "" && only != c.name {
			continue
		}
		known = true
		switch {
		case c.err == nil:
			fmt.Fprintf(&report, "[+]%s ok\n", c.name)
		case only == "":
			healthy = false
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.name)
		default:
			healthy = false
			fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, c.err)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if only == "" || !healthy {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	switch {
	case !known:
		http.NotFound(w, r)
	case !healthy:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", report.String(), endpoint)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", report.String(), endpoint)
	default:
		fmt.Fprint(w, "ok")
	}
}

// run runs the checks of an endpoint.
func (h *health) run(endpoint string) []check {
	checks := []check{{"ping", nil}}
	if endpoint != "readyz" {
		return checks
	}
	serving := check{name: "serving"}
	if !h.ready.Load() {
		serving.err = errNotServing
	}
	checks = append(checks, serving)
	for _, c := range h.checks {
		checks = append(checks, check{c.Name, c.Check()})
	}
	return checks
}
