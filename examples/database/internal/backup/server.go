package backup

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"flyball.dev/examples/internal/loopback"
)

// Server is a backup service, and its HTTP handler. It is safe for concurrent use.
type Server struct {
	url     string
	stop    func() error
	handler http.Handler

	mu       sync.Mutex
	settings Settings
	vaults   map[string]*vault
}

// Settings are how a server behaves. PUT /settings changes those that the body has.
type Settings struct {
	// Down makes the server answer all other requests with 503.
	Down bool `json:"down"`
	// Hold makes everything that is pending remain so.
	Hold bool `json:"hold"`
	// Delay is how long a vault or a snapshot is pending at least, in milliseconds.
	Delay int64 `json:"delay"`
}

// item is a vault or a snapshot.
type item struct {
	State State     `json:"state"`
	From  time.Time `json:"-"` // when it was created
}

// vault is an item with snapshots.
type vault struct {
	item
	Snapshots map[string]*item `json:"snapshots"`
}

// Start starts a server on a free port of the loopback interface.
func Start(settings Settings) (*Server, error) {
	s := New(settings)
	var err error
	s.url, s.stop, err = loopback.Serve(s)
	return s, err
}

// New returns a server without a port.
func New(settings Settings) *Server {
	s := &Server{settings: settings, vaults: map[string]*vault{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /settings", s.putSettings)
	mux.HandleFunc("GET /vaults", s.locked(s.list))
	mux.HandleFunc("GET /vaults/{vault}", s.locked(s.getVault))
	mux.HandleFunc("PUT /vaults/{vault}", s.locked(s.putVault))
	mux.HandleFunc("DELETE /vaults/{vault}", s.locked(s.deleteVault))
	mux.HandleFunc("GET /vaults/{vault}/snapshots/{snapshot}", s.locked(s.getSnapshot))
	mux.HandleFunc("PUT /vaults/{vault}/snapshots/{snapshot}", s.locked(s.putSnapshot))
	s.handler = mux
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close stops the server and closes its connections.
func (s *Server) Close() error { return s.stop() }

// URL returns the URL of the server.
func (s *Server) URL() string { return s.url }

// Set changes the settings.
func (s *Server) Set(settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = settings
}

// Vaults returns the states of the snapshots of each vault.
func (s *Server) Vaults() map[string]map[string]State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]map[string]State{}
	for name, v := range s.vaults {
		all[name] = map[string]State{}
		for snapshot, i := range v.Snapshots {
			all[name][snapshot] = i.State
		}
	}
	return all
}

// DeleteVaults deletes all vaults, as if somebody had done it behind the back of the operator.
func (s *Server) DeleteVaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.vaults)
}

// locked returns a handler that answers 503 if the server is down, and otherwise advances the
// pending operations and calls handle.
func (s *Server) locked(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.settings.Down {
			http.Error(w, "out of service", http.StatusServiceUnavailable)
			return
		}
		for _, v := range s.vaults {
			s.advance(&v.item)
			for _, snapshot := range v.Snapshots {
				s.advance(snapshot)
			}
		}
		handle(w, r)
	}
}

// advance makes an item ready if its time has come.
func (s *Server) advance(i *item) {
	delay := time.Duration(s.settings.Delay) * time.Millisecond
	if !s.settings.Hold && time.Since(i.From) >= delay {
		i.State = Ready
	}
}

func (s *Server) putSettings(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.settings
	if err := json.NewDecoder(r.Body).Decode(&changed); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.settings = changed
	respond(w, changed)
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) { respond(w, s.vaults) }

func (s *Server) getVault(w http.ResponseWriter, r *http.Request) {
	v, ok := s.vaults[r.PathValue("vault")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	respond(w, v)
}

func (s *Server) putVault(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("vault")
	if s.vaults[name] == nil {
		s.vaults[name] = &vault{item: item{State: Pending, From: time.Now()}, Snapshots: map[string]*item{}}
	}
	respond(w, s.vaults[name])
}

func (s *Server) deleteVault(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("vault")
	if _, ok := s.vaults[name]; !ok {
		http.NotFound(w, r)
		return
	}
	delete(s.vaults, name)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getSnapshot(w http.ResponseWriter, r *http.Request) {
	v, ok := s.vaults[r.PathValue("vault")]
	if !ok || v.Snapshots[r.PathValue("snapshot")] == nil {
		http.NotFound(w, r)
		return
	}
	respond(w, v.Snapshots[r.PathValue("snapshot")])
}

func (s *Server) putSnapshot(w http.ResponseWriter, r *http.Request) {
	v, ok := s.vaults[r.PathValue("vault")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if v.State != Ready {
		http.Error(w, "the vault is not ready", http.StatusConflict)
		return
	}
	name := r.PathValue("snapshot")
	if v.Snapshots[name] == nil {
		v.Snapshots[name] = &item{State: Pending, From: time.Now()}
	}
	respond(w, v.Snapshots[name])
}

// respond writes a body as JSON.
func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client has gone away
}
