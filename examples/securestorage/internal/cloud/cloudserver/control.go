package cloudserver

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"flyball.dev/examples/securestorage/internal/cloud"
)

// State is what the cloud has, and what was requested.
type State struct {
	Accounts map[string]cloud.Account
	Vaults   map[string]cloud.Vault
	// Requests are the numbers of requests, failed ones included.
	Requests map[Operation]int
}

// Writes returns the number of requests that may have changed something.
func (s State) Writes() (n int) {
	for o, requests := range s.Requests {
		if !o.isRead() {
			n += requests
		}
	}
	return n
}

// Reads returns the number of requests that changed nothing.
func (s State) Reads() (n int) {
	for o, requests := range s.Requests {
		if o.isRead() {
			n += requests
		}
	}
	return n
}

func (o Operation) isRead() bool { return strings.HasPrefix(string(o), http.MethodGet+" ") }

// State returns the present state.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

// state returns a copy of the present state. The lock is held.
func (s *Server) state() State {
	state := State{
		Accounts: map[string]cloud.Account{},
		Vaults:   map[string]cloud.Vault{},
		Requests: maps.Clone(s.requests),
	}
	for name, a := range s.accounts {
		state.Accounts[name] = s.show(a)
	}
	for name, vault := range s.vaults {
		state.Vaults[name] = clone(vault)
	}
	return state
}

// Await waits until a condition is true, which is called now and after each request. It returns "" if
// it is true, and else the missing part, which is the error if ctx ends before.
func (s *Server) Await(ctx context.Context, condition func(State) string) error {
	for {
		s.mu.Lock()
		state, changed := s.state(), s.changed
		s.mu.Unlock()
		missing := condition(state)
		if missing == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New(missing)
		}
	}
}

// AddVault adds a key vault.
func (s *Server) AddVault(name string, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vaults[name] = &cloud.Vault{Name: name, Keys: keys}
	s.notify()
}

// DeleteVault deletes a key vault with all access to it.
func (s *Server) DeleteVault(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.vaults, name)
	s.notify()
}

// SetIdentityDelay sets how long after its creation an account has its identity; 0 by default. It
// applies to the accounts that exist, too.
func (s *Server) SetIdentityDelay(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identityDelay = delay
}

// Fail makes an operation fail from now on, or with None succeed again.
func (s *Server) Fail(o Operation, f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[o] = f
}

// SetDown makes all operations fail with 503, or no longer.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// SetFailureRate sets the probability with which a request fails with 503.
func (s *Server) SetFailureRate(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failureRate = rate
}

// clone returns a copy of a vault.
func clone(v *cloud.Vault) cloud.Vault {
	return cloud.Vault{Name: v.Name, Keys: slices.Clone(v.Keys), Access: slices.Clone(v.Access)}
}
