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
	"flyball.dev/controllers/podgc"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/replicaset"
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
	{"deployment", alone(deployment.AddToManager)},
	{"replicaset", alone(replicaset.AddToManager)},
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

// AddAll adds the chosen loops to the manager. The manager's client should have no rate limit, and its
// scheme must know the kinds of client-go's.
func AddAll(mgr manager.Manager, o Options) error {
	for _, name := range o.Without {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no loop %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	var shared *inventory.Inventory
	objects := func() (_ *inventory.Inventory, err error) {
		if shared == nil {
			shared, err = inventory.New(mgr)
		}
		return shared, err
	}
	for _, l := range loops {
		if slices.Contains(o.Without, l.name) {
			continue
		}
		if err := l.add(mgr, o, objects); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
