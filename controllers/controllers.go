// Package controllers has the controllers of the control plane, such as those of
// kube-controller-manager and kube-scheduler, written on ctrl like any operator.
//
// Each controller is a package of its own: pure functions from the observed state to the next
// action, and a reconciler that executes it. Controllers share only the manager's cache, so any of
// them can be left out.
package controllers

import (
	"fmt"
	"slices"
	"strings"

	"flyball.dev/controllers/certificates"
	"flyball.dev/controllers/clusterroleaggregation"
	"flyball.dev/controllers/cronjob"
	"flyball.dev/controllers/deployment"
	"flyball.dev/controllers/disruption"
	"flyball.dev/controllers/endpoints"
	"flyball.dev/controllers/endpointslice"
	"flyball.dev/controllers/endpointslicemirroring"
	"flyball.dev/controllers/ephemeralvolume"
	"flyball.dev/controllers/gc"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controllers/job"
	"flyball.dev/controllers/localpath"
	"flyball.dev/controllers/namespace"
	"flyball.dev/controllers/nodelifecycle"
	"flyball.dev/controllers/persistentvolume"
	"flyball.dev/controllers/podgc"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/replicaset"
	"flyball.dev/controllers/resourcequota"
	"flyball.dev/controllers/rootca"
	"flyball.dev/controllers/scheduler"
	"flyball.dev/controllers/serviceaccount"
	"flyball.dev/controllers/serviceaccounttoken"
	"flyball.dev/controllers/servicecidr"
	"flyball.dev/controllers/statefulset"
	"flyball.dev/controllers/tainteviction"
	"flyball.dev/controllers/ttlafterfinished"
	"flyball.dev/controllers/validatingadmissionpolicystatus"
	"flyball.dev/controllers/volumeprotection"
	"flyball.dev/ctrl/manager"
)

// Options select and configure the controllers. The zero value selects all.
type Options struct {
	// Without has the names of the controllers that are not to run; see [Names].
	Without []string
	// Pods configures how pods behave.
	Pods pods.Options
	// PodGC configures the pod garbage collector.
	PodGC podgc.Options
	// WithoutEvents makes the controllers record no events.
	WithoutEvents bool
	// RootCA is the certificate, in PEM, that is published in every namespace, and with the tokens in
	// Secrets. If it is empty, nothing is published.
	RootCA []byte
	// Signer signs approved CertificateSigningRequests. If it is nil, nothing signs them.
	Signer *certificates.Authority
	// OnFailure, if not nil, is called when a controller has ended with an error; the others keep
	// running. It may be called from several goroutines at once. It may cancel the context of the
	// manager, but must not wait until that has stopped, since the manager waits for it. If it is
	// nil, the error stops the manager, and so all controllers.
	OnFailure func(controller string, err error)
}

// descriptor is a controller by its name.
type descriptor struct {
	name string
	add  addFunc
}

// addFunc adds a controller to a manager. All controllers share one inventory, which is created at
// the first call of objects.
type addFunc func(mgr manager.Manager, o Options, objects func() (*inventory.Inventory, error)) error

// descriptors are all controllers.
var descriptors = []descriptor{
	{"garbage-collector", withInventory(gc.AddToManager)},
	{"namespace", withInventory(namespace.AddToManager)},
	{"serviceaccount", withoutOptions(serviceaccount.AddToManager)},
	{"serviceaccount-token", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		return serviceaccounttoken.AddToManager(mgr, o.RootCA)
	}},
	{"root-ca", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		if len(o.RootCA) == 0 {
			return nil
		}
		return rootca.AddToManager(mgr, o.RootCA)
	}},
	{"csrapproving", withoutOptions(certificates.AddApproverToManager)},
	{"csrcleaner", withoutOptions(certificates.AddCleanerToManager)},
	{"csrsigning", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		if o.Signer == nil {
			return nil
		}
		return certificates.AddToManager(mgr, o.Signer)
	}},
	{"clusterrole-aggregation", withoutOptions(clusterroleaggregation.AddToManager)},
	{"deployment", withoutOptions(deployment.AddToManager)},
	{"replicaset", withoutOptions(replicaset.AddToManager)},
	{"statefulset", withoutOptions(statefulset.AddToManager)},
	{"job", withoutOptions(job.AddToManager)},
	{"cronjob", withoutOptions(cronjob.AddToManager)},
	{"ttl-after-finished", withoutOptions(ttlafterfinished.AddToManager)},
	{"disruption", withoutOptions(disruption.AddToManager)},
	{"endpoints", withoutOptions(endpoints.AddToManager)},
	{"endpointslice", withoutOptions(endpointslice.AddToManager)},
	{"endpointslicemirroring", withoutOptions(endpointslicemirroring.AddToManager)},
	{"node-lifecycle", withoutOptions(nodelifecycle.AddToManager)},
	{"resourcequota", withInventory(resourcequota.AddToManager)},
	{"service-cidr", withoutOptions(servicecidr.AddToManager)},
	{"scheduler", func(mgr manager.Manager, _ Options, _ func() (*inventory.Inventory, error)) error {
		return scheduler.AddToManager(mgr, pods.NodeName)
	}},
	{"pods", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		return pods.AddToManager(mgr, o.Pods)
	}},
	{"persistentvolume-binder", withoutOptions(persistentvolume.AddToManager)},
	{"local-path-provisioner", func(mgr manager.Manager, _ Options, _ func() (*inventory.Inventory, error)) error {
		return localpath.AddToManager(mgr, pods.NodeName)
	}},
	{"ephemeral-volume", withoutOptions(ephemeralvolume.AddToManager)},
	{"taint-eviction", withoutOptions(tainteviction.AddToManager)},
	{"validatingadmissionpolicy-status", withoutOptions(validatingadmissionpolicystatus.AddToManager)},
	{"volume-protection", withoutOptions(volumeprotection.AddToManager)},
	{"podgc", func(mgr manager.Manager, o Options, _ func() (*inventory.Inventory, error)) error {
		return podgc.AddToManager(mgr, o.PodGC)
	}},
}

// withoutOptions adapts the AddToManager of a controller that needs only the manager.
func withoutOptions(add func(manager.Manager) error) addFunc {
	return func(mgr manager.Manager, _ Options, _ func() (*inventory.Inventory, error)) error { return add(mgr) }
}

// withInventory adapts the AddToManager of a controller that needs the inventory.
func withInventory(add func(manager.Manager, *inventory.Inventory) error) addFunc {
	return func(mgr manager.Manager, _ Options, objects func() (*inventory.Inventory, error)) error {
		i, err := objects()
		if err != nil {
			return err
		}
		return add(mgr, i)
	}
}

// Names returns the names of all controllers.
func Names() []string {
	names := make([]string, len(descriptors))
	for i, d := range descriptors {
		names[i] = d.name
	}
	return names
}

// Names returns the names of the selected controllers, or an error if Without has an unknown name.
func (o *Options) Names() ([]string, error) {
	all := Names()
	for _, name := range o.Without {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%q is not in the list of known controllers: %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(o.Without, name) }), nil
}

// AddAll adds the selected controllers to the manager. The manager's client should have no rate
// limit, and its scheme must have the kinds of client-go's scheme.
func AddAll(mgr manager.Manager, o Options) error {
	selected, err := o.Names()
	if err != nil {
		return err
	}
	mgr = newIndexingManager(mgr)
	var shared *inventory.Inventory
	objects := func() (_ *inventory.Inventory, err error) {
		if shared == nil {
			shared, err = inventory.New(mgr)
		}
		return shared, err
	}
	for _, d := range descriptors {
		if !slices.Contains(selected, d.name) {
			continue
		}
		if err := d.add(newSupervisedManager(mgr, d.name, o), o, objects); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}
