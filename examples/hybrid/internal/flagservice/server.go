// Package flagservice is the external system of the hybrid example: a service that has the feature
// flags of projects, and a client of it.
package flagservice

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// Server is the flag service. It answers GET /projects/NAME with the flags of a project as a JSON
// object of strings, and their revision as the ETag. PUT /projects/NAME with such an object replaces
// them. It is safe for concurrent use.
type Server struct {
	mux *http.ServeMux

	mu       sync.Mutex
	projects map[string]project
	down     bool
	requests chan struct{} // gets a value at each request, if somebody waits
}

// project are the flags of a project.
type project struct {
	flags    map[string]string
	revision int
}

// New returns a server without projects.
func New() *Server {
	s := &Server{mux: http.NewServeMux(), projects: map[string]project{}, requests: make(chan struct{})}
	s.mux.HandleFunc("GET /projects/{name}", s.get)
	s.mux.HandleFunc("PUT /projects/{name}", s.put)
	return s
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.requests <- struct{}{}:
	default:
	}
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		http.Error(w, "the flag service is down for maintenance", http.StatusServiceUnavailable)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Set replaces the flags of a project.
func (s *Server) Set(name string, flags map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projects[name] = project{maps.Clone(flags), s.projects[name].revision + 1}
}

// SetDown makes the server answer every request with 503, or ends that.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// WaitForRequests waits for n requests from now on.
func (s *Server) WaitForRequests(ctx context.Context, n int) error {
	for range n {
		select {
		case <-s.requests:
		case <-ctx.Done():
			return errors.New("the flag service was not asked")
		}
	}
	return nil
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, ok := s.projects[r.PathValue("name")]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "there is no project "+r.PathValue("name"), http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(p.revision)))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p.flags) // the client is gone if it fails
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	flags := map[string]string{}
	if err := json.NewDecoder(r.Body).Decode(&flags); err != nil {
		http.Error(w, "not an object of strings: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.Set(r.PathValue("name"), flags)
}
