// Package cloudserver is the cloud: an HTTP server with storage accounts and key vaults. Its delays
// and failures can be set.
package cloudserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"flyball.dev/examples/securestorage/internal/cloud"
)

// Operation is a kind of request, by its method and pattern.
type Operation string

// The operations.
const (
	GetAccount    Operation = "GET /accounts/{name}"
	PutAccount    Operation = "PUT /accounts/{name}"
	DeleteAccount Operation = "DELETE /accounts/{name}"
	PutKey        Operation = "PUT /accounts/{name}/key"
	GetVault      Operation = "GET /vaults/{name}"
	PutAccess     Operation = "PUT /vaults/{name}/access/{principal}"
	DeleteAccess  Operation = "DELETE /vaults/{name}/access/{principal}"
)

// Failure is what happens to a request.
type Failure int

const (
	// None means that the request succeeds.
	None Failure = iota
	// Unavailable means that nothing is done, and the answer is 503.
	Unavailable
	// Lost means that the request is done, and the answer is 502 all the same.
	Lost
)

// Server is the cloud. Its methods are safe for concurrent use.
type Server struct {
	mux *http.ServeMux

	mu            sync.Mutex
	accounts      map[string]*account
	vaults        map[string]*cloud.Vault
	identityDelay time.Duration
	failures      map[Operation]Failure
	down          bool
	failureRate   float64
	requests      map[Operation]int
	changed       chan struct{} // closed after a request
}

// account is a storage account, which has its identity some time after it was created.
type account struct {
	cloud.Account
	created time.Time
}

// New returns a cloud with no accounts, and with one vault, "vault", with the keys "key-1" and "key-2".
func New() *Server {
	s := &Server{
		mux:      http.NewServeMux(),
		accounts: map[string]*account{},
		vaults:   map[string]*cloud.Vault{},
		failures: map[Operation]Failure{},
		requests: map[Operation]int{},
		changed:  make(chan struct{}),
	}
	s.AddVault("vault", "key-1", "key-2")
	s.handle(GetAccount, s.getAccount)
	s.handle(PutAccount, s.putAccount)
	s.handle(DeleteAccount, s.deleteAccount)
	s.handle(PutKey, s.putKey)
	s.handle(GetVault, s.getVault)
	s.handle(PutAccess, s.putAccess)
	s.handle(DeleteAccess, s.deleteAccess)
	return s
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handle adds an operation. The handler returns the body of the response, or an error, and is called
// with the lock held.
func (s *Server) handle(o Operation, handler func(*http.Request) (any, *cloud.Error)) {
	s.mux.HandleFunc(string(o), func(w http.ResponseWriter, r *http.Request) {
		body, failure := s.serve(o, r, handler)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case failure != nil:
			w.WriteHeader(failure.Status)
			body = failure
		case body == nil:
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
	})
}

// serve serves a request, or lets it fail.
func (s *Server) serve(o Operation, r *http.Request,
	handler func(*http.Request) (any, *cloud.Error)) (any, *cloud.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	s.requests[o]++
	failure := s.failures[o]
	if failure == Unavailable || s.down || rand.Float64() < s.failureRate {
		return nil, &cloud.Error{Status: http.StatusServiceUnavailable, Message: "the service is unavailable"}
	}
	body, refused := handler(r)
	if failure == Lost {
		return nil, &cloud.Error{Status: http.StatusBadGateway, Message: "the response was lost"}
	}
	return body, refused
}

// notify wakes those who await a state. The lock is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) getAccount(r *http.Request) (any, *cloud.Error) {
	a, ok := s.accounts[r.PathValue("name")]
	if !ok {
		return nil, refusal(http.StatusNotFound, "there is no account %s", r.PathValue("name"))
	}
	return s.show(a), nil
}

// show returns an account as clients see it: its identity only if it is old enough.
func (s *Server) show(a *account) cloud.Account {
	shown := a.Account
	if time.Since(a.created) < s.identityDelay {
		shown.PrincipalID = ""
	}
	return shown
}

func (s *Server) putAccount(r *http.Request) (any, *cloud.Error) {
	put := cloud.Account{}
	if err := json.NewDecoder(r.Body).Decode(&put); err != nil {
		return nil, refusal(http.StatusBadRequest, "the body is not an account: %v", err)
	}
	name := r.PathValue("name")
	a, ok := s.accounts[name]
	if !ok {
		a = &account{created: time.Now(), Account: cloud.Account{
			Name: name, Owner: put.Owner, Location: put.Location, PrincipalID: string(uuid.NewUUID())}}
		s.accounts[name] = a
	}
	if a.Owner != put.Owner {
		return nil, refusal(http.StatusConflict, "the name %s is taken", name)
	}
	return s.show(a), nil
}

func (s *Server) deleteAccount(r *http.Request) (any, *cloud.Error) {
	if _, refused := s.getAccount(r); refused != nil {
		return nil, refused
	}
	delete(s.accounts, r.PathValue("name"))
	return nil, nil
}

func (s *Server) putKey(r *http.Request) (any, *cloud.Error) {
	key := cloud.Key{}
	if err := json.NewDecoder(r.Body).Decode(&key); err != nil {
		return nil, refusal(http.StatusBadRequest, "the body is not a key: %v", err)
	}
	a, ok := s.accounts[r.PathValue("name")]
	if !ok {
		return nil, refusal(http.StatusNotFound, "there is no account %s", r.PathValue("name"))
	}
	principal := s.show(a).PrincipalID
	if principal == "" {
		return nil, refusal(http.StatusConflict, "account %s has no identity yet", a.Name)
	}
	vault, ok := s.vaults[key.Vault]
	if !ok || !grants(vault, principal) {
		return nil, refusal(http.StatusForbidden, "account %s has no access to vault %s", a.Name, key.Vault)
	}
	if !slices.Contains(vault.Keys, key.Name) {
		return nil, refusal(http.StatusUnprocessableEntity, "vault %s has no key %s", key.Vault, key.Name)
	}
	a.Key = &key
	return nil, nil
}

func (s *Server) getVault(r *http.Request) (any, *cloud.Error) {
	vault, ok := s.vaults[r.PathValue("name")]
	if !ok {
		return nil, refusal(http.StatusNotFound, "there is no vault %s", r.PathValue("name"))
	}
	return clone(vault), nil
}

func (s *Server) putAccess(r *http.Request) (any, *cloud.Error) {
	access := cloud.Access{}
	if err := json.NewDecoder(r.Body).Decode(&access); err != nil || access.PrincipalID != r.PathValue("principal") {
		return nil, refusal(http.StatusBadRequest, "the body is not an access of %s", r.PathValue("principal"))
	}
	vault, ok := s.vaults[r.PathValue("name")]
	if !ok {
		return nil, refusal(http.StatusNotFound, "there is no vault %s", r.PathValue("name"))
	}
	if !grants(vault, access.PrincipalID) {
		vault.Access = append(vault.Access, access)
	}
	return nil, nil
}

func (s *Server) deleteAccess(r *http.Request) (any, *cloud.Error) {
	vault, ok := s.vaults[r.PathValue("name")]
	if !ok || !grants(vault, r.PathValue("principal")) {
		return nil, refusal(http.StatusNotFound, "%s has no access to vault %s", r.PathValue("principal"), r.PathValue("name"))
	}
	vault.Access = slices.DeleteFunc(vault.Access, func(a cloud.Access) bool {
		return a.PrincipalID == r.PathValue("principal")
	})
	return nil, nil
}

// grants reports whether an identity has access to a vault.
func grants(vault *cloud.Vault, principal string) bool {
	return slices.ContainsFunc(vault.Access, func(a cloud.Access) bool { return a.PrincipalID == principal })
}

func refusal(status int, format string, args ...any) *cloud.Error {
	return &cloud.Error{Status: status, Message: fmt.Sprintf(format, args...)}
}
