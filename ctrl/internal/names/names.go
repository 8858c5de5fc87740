// Package names ensures that the names of controllers are unique, as they label metrics and logs.
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

// Owner is a scope of names. A manager is one, so that two managers in a process can have
// controllers with the same names.
type Owner interface {
	ControllerNames() *Set
}

// Process has the names of the controllers without a manager.
var Process Set

// Claim adds a name. It returns an error if the name is in use.
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
