// Package names keeps the names of controllers apart, since they label metrics and logs.
package names

import (
	"fmt"
	"sync"
)

// Set is a set of names in use. The zero value is empty. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex
	used map[string]struct{}
}

// Owner has names of its own. A manager is one, so that two managers in one process do not get into
// each other's way.
type Owner interface {
	ControllerNames() *Set
}

// Process holds the names of the controllers without a manager.
var Process Set

// Claim takes a name, and returns an error if it is taken.
func (s *Set) Claim(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.used[name]; taken {
		return fmt.Errorf("controller with name %s already exists. Controller names must be unique, as they label metrics "+
			"and logs. This validation can be disabled via the SkipNameValidation option", name)
	}
	if s.used == nil {
		s.used = map[string]struct{}{}
	}
	s.used[name] = struct{}{}
	return nil
}
