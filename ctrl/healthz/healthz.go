// Package healthz serves health checks over HTTP.
//
// A [Handler] serves all checks together at its root, and each check at a path with its name. The
// response of the root names the checks that failed without their errors; the path of a check
// returns its error.
package healthz

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"flyball.dev/ctrl/log"
)

// Checker reports whether something is healthy: nil means that it is. It must be safe for
// concurrent use.
type Checker func(req *http.Request) error

// Ping always passes.
var Ping Checker = func(*http.Request) error { return nil }

// CheckHandler serves the result of one check: 200 and "ok", or 500 and the error.
type CheckHandler struct {
	Checker
}

// ServeHTTP implements http.Handler.
func (h CheckHandler) ServeHTTP(resp http.ResponseWriter, req *http.Request) {
	if err := h.Checker(req); err != nil {
		http.Error(resp, "internal server error: "+err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(resp, "ok")
}

// Handler serves many checks. At its root it runs all of them and responds with 200 if all passed,
// otherwise with 500 and a line for each check. The query ?verbose adds these lines in any case,
// and each ?exclude=NAME excludes a check. At /NAME it runs one check. Without checks it has one
// named ping, which passes.
//
// Checks must not be changed while the handler is in use.
type Handler struct {
	Checks map[string]Checker
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(resp http.ResponseWriter, req *http.Request) {
	checks := h.Checks
	if len(checks) == 0 {
		checks = map[string]Checker{"ping": Ping}
	}
	name := strings.TrimPrefix(path.Clean("/"+req.URL.Path), "/")
	if name == "" {
		serveAll(checks, resp, req)
	} else if check, ok := checks[name]; ok {
		CheckHandler{check}.ServeHTTP(resp, req)
	} else {
		http.NotFound(resp, req)
	}
}

// serveAll runs all checks but the excluded ones, and reports those that fail, or all of them if
// the query has "verbose".
func serveAll(checks map[string]Checker, resp http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	unknown := map[string]bool{}
	for _, name := range query["exclude"] {
		unknown[name] = true
	}
	var report strings.Builder
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if unknown[name] {
			delete(unknown, name)
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", name)
			continue
		}
		if err := checks[name](req); err != nil {
			log.Current().WithName("healthz").V(1).Info("Health check failed", "checker", name, "error", err.Error())
			failed = append(failed, name)
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", name)
	}
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(unknown))
		for i := range names {
			names[i] = fmt.Sprintf("%q", names[i])
		}
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(names, ","))
	}

	resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
	resp.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case len(failed) > 0:
		log.Current().WithName("healthz").Info("Health check failed", "checkers", failed)
		resp.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(resp, report.String(), "healthz check failed\n")
	case query.Has("verbose"):
		fmt.Fprint(resp, report.String(), "healthz check passed\n")
	default:
		fmt.Fprint(resp, "ok")
	}
}
