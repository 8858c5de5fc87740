package envtest

import (
	"cmp"
	"fmt"
	"sync/atomic"

	plane "flyball.dev/controlplane"
	"flyball.dev/controlplane/kubeflags"
)

// basic are the controllers that run by default.
const basic = "garbage-collector-controller,namespace-controller"

// asPrograms is set by DefaultToPrograms.
var asPrograms atomic.Bool

// DefaultToPrograms makes environments of this process behave, by default, as kube-apiserver and etcd do
// when nothing else runs: no controllers, deletions that take 5 ms, the admission plugins that
// add finalizers and taints for controllers to remove, and requests over the socket. Suites that were
// written for controller-runtime's environments expect that. A suite in the process would otherwise
// write several objects before its operator has the event of the first one. It is for module compat,
// which calls it at initialization.
func DefaultToPrograms() { asPrograms.Store(true) }

// setBehaviour sets the options that no flag sets: the controllers, and what depends on them.
func (s *APIServer) setBehaviour(o *plane.Options) error {
	selected := basic
	if asPrograms.Load() {
		kubeflags.AsProgram(o)
		selected = plane.NoControllers
	}
	if s.deletionDelay != 0 {
		o.DeletionDelay = max(s.deletionDelay, 0)
	}
	if err := o.SelectControllersByVariable(cmp.Or(s.selected, selected)); err != nil {
		return fmt.Errorf("unable to select controllers: %w", err)
	}
	return nil
}
