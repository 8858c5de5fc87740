// Package controllers is the control plane's own loops, written on ctrl like any operator.
//
// Each loop is a package of its own: a pure function from what is to what is to be done, and a thin
// reconciler around it. Loops share nothing but the manager's cache, so any of them can be left out.
package controllers

import (
	"fmt"
	"slices"
	"strings"

	"flyball.dev/controllers/deployment"
	"flyball.dev/controllers/gc"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controllers/namespace"
	"flyball.dev/controllers/nodelifecycle"
	"flyball.dev/controllers/podgc"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/replicaset"
	"flyball.dev/controllers/rootca"
	"flyball.dev/controllers/scheduler"
	"flyball.dev/controllers/serviceaccount"
	"flyball.dev/ctrl/manager"
)

// Options choose the loops and direct them. The zero value runs them all.
type Options struct {
	// Without names the loops that are not to run; see [Names].
	Without []string
	// Pods says how pods behave.
	Pods pods.Options
	// PodGC says which pods are deleted that have ended.
	PodGC podgc.Options
	// WithoutEvents keeps the loops from recording events about what they do.
	WithoutEvents bool
	// RootCA is the certificate, in PEM, that is published in every namespace. A control plane
	// publishes its own if there is none; elsewhere none is published then.
	RootCA []byte
	// OnFailure, if not nil, is called when a loop has ended with an error; the others go on. It may
	// be called from several goroutines. Otherwise the error stops the manager, and so all loops.
	OnFailure func(loop string, err error)
}

// loop is one entry of the list of loops. The inventory is made only if a loop wants it.
type loop struct {
	name string
	add  func(mgr manager.Manager, o Options, objects func() (*inventory.Inventory, error)) error
}

var loops = []loop{
	{"garbage-collector", withInventory(gc.AddToManager)},
	{"namespace", withInventory(namespace.AddToManager)},
	{"serviceaccount", alone(serviceaccount.AddToManager)},
	{"root-ca", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		if len(o.RootCA) == 0 {
			return nil
		}
		return rootca.AddToManager(mgr, o.RootCA)
	}},
	{"deployment", alone(deployment.AddToManager)},
	{"replicaset", alone(replicaset.AddToManager)},
	{"node-lifecycle", alone(nodelifecycle.AddToManager)},
	{"scheduler", func(mgr manager.Manager, _ Options, _ func() (*inventory.Inventory, error)) error {
		return scheduler.AddToManager(mgr, pods.NodeName)
	}},
	{"pods", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		return pods.AddToManager(mgr, o.Pods)
	}},
	{"podgc", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		return podgc.AddToManager(mgr, o.PodGC)
	}},
}

func alone(add func(manager.Manager) error) func(manager.Manager, Options, func() (*inventory.Inventory, error)) error {
	return func(mgr manager.Manager, _ Options, _ func() (*inventory.Inventory, error)) error { return add(mgr) }
}

func withInventory(add func(manager.Manager, *inventory.Inventory) error) func(manager.Manager, Options, func() (*inventory.Inventory, error)) error {
	return func(mgr manager.Manager, _ Options, objects func() (*inventory.Inventory, error)) error {
		i, err := objects()
		if err != nil {
			return err
		}
		return add(mgr, i)
	}
}

// Names are the names of all loops.
func Names() []string {
	names := make([]string, len(loops))
	for i, l := range loops {
		names[i] = l.name
	}
	return names
}

// Names are the names of the chosen loops, or an error if a name to leave out is that of no loop.
func (o *Options) Names() ([]string, error) {
	all := Names()
	for _, name := range o.Without {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%q is not in the list of known controllers: %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(o.Without, name) }), nil
}

// AddAll adds the chosen loops to the manager. The manager's client should have no rate limit, and its
// scheme must know the kinds of client-go's.
func AddAll(mgr manager.Manager, o Options) error {
	chosen, err := o.Names()
	if err != nil {
		return err
	}
	var shared *inventory.Inventory
	objects := func() (_ *inventory.Inventory, err error) {
		if shared == nil {
			shared, err = inventory.New(mgr)
		}
		return shared, err
	}
	for _, l := range loops {
		if !slices.Contains(chosen, l.name) {
			continue
		}
		if err := l.add(newSupervised(mgr, l.name, o), o, objects); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
