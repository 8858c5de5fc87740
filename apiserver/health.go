package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// health answers /healthz, /livez and /readyz, whole or check by check.
type health struct{ ready *atomic.Bool }

// check is what a health endpoint found out about one thing.
type check struct {
	name string
	ok   bool
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint, only, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	checks := []check{{"ping", true}}
	if endpoint == "readyz" {
		checks = append(checks, check{"serving", h.ready.Load()})
	}
	var report strings.Builder
	healthy, known := true, only == ""
	for _, c := range checks {
		if only != "" && only != c.name {
			continue
		}
		known = true
		mark, word := "+", "ok"
		if !c.ok {
			mark, word, healthy = "-", "failed", false
		}
		fmt.Fprintf(&report, "[%s]%s %s\n", mark, c.name, word)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
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
