// Package controllers has the controllers of the control plane. Most of them are the controllers of
// kube-controller-manager. They are written on ctrl like any operator.
//
// Each controller is a package: pure functions from the observed state to the next action, and a reconciler that
// executes the action. Controllers share only the manager's cache, so any of them can be switched off.
//
// Each controller makes its requests with the [Identity] of its counterpart on a cluster, for example the service
// account deployment-controller in kube-system. It needs only the roles that every cluster has, and the objects of
// [Options.Manifests].
//
// Watches trigger controllers. ARCHITECTURE.md lists the periodic work.
//
// # Writes
//
// A controller receives its own writes as events, and an event ends its backoff. So a status must not change with each
// attempt; the message of an error with a generated name would. The condition of the first failure stays until there is
// a success. Only the conditions of a terminating namespace have the errors of the last attempt, and the namespace
// controller ignores them as events. TestBlockedControllers keeps each controller from its writes, and allows 16
// revisions and 25 events a minute.
//
// # Owners
//
// A controller of owners has one watch of the owned objects: an event concerns the controller of the object or, if it
// has none, the owners that would adopt it (package claim). A reconcile reads the objects that the owner controls, and
// those without a controller. After a reconcile of a hundred pods or more, ReplicaSets and Jobs pause for as long as it
// has taken (podcontrol.Pause), so that the pods that start meanwhile cause one reconcile. The controllers of one
// manager share indexes of the same name and kind (indexes.go).
//
// # Identities
//
// The identity system:kube-controller-manager, which may list and watch everything, fills the manager's cache. The
// client and the event recorders of a controller send their requests with its own identity, in the process and without
// a token. Some identities are special:
//
//   - The local-path provisioner has the service account local-path-provisioner-service-account in kube-system, as in
//     k3s, with the bootstrap role system:persistent-volume-provisioner.
//   - Kubelet's stand-in makes the requests for a node as system:node:NAME in system:nodes. One client serves all
//     nodes: the node is in the context of a request (nodeuser.go of package pods). The node authorizer authorizes it
//     or, without that, a binding of the group flyball:nodes, which no other client can have, to system:node.
//   - The controller of token Secrets is system:kube-controller-manager itself, as upstream's is.
//
// Service accounts, bindings, the default StorageClass and the nodes are manifests (manifests.go), which the API server
// creates at its start. A controller that may list a kind, but not get it, reads live objects by a list with the name.
//
// # Failures
//
// supervised.go wraps the manager for one controller. A controller that fails does not stop the others: its error is
// logged and its check in /readyz fails. The events of each recorder are rate limited (100 a second after a burst of
// 400), so that many pods at once are not delayed by their events.
//
// # Tests
//
// The tests of a controller are in its package. A test with a control plane is in an external test package, and gets
// the control plane from package controllerstest. This package has the tests of all controllers together: identities
// and roles, refused writes, restarts, events.
package controllers

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/client-go/rest"

	"flyball.dev/controllers/bootstraptoken"
	"flyball.dev/controllers/certificates"
	"flyball.dev/controllers/clusterroleaggregation"
	"flyball.dev/controllers/cronjob"
	"flyball.dev/controllers/daemonset"
	"flyball.dev/controllers/deployment"
	"flyball.dev/controllers/disruption"
	"flyball.dev/controllers/endpoints"
	"flyball.dev/controllers/endpointslice"
	"flyball.dev/controllers/endpointslicemirroring"
	"flyball.dev/controllers/ephemeralvolume"
	"flyball.dev/controllers/gc"
	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controllers/job"
	"flyball.dev/controllers/loadbalancer"
	"flyball.dev/controllers/localpath"
	"flyball.dev/controllers/namespace"
	"flyball.dev/controllers/nodeipam"
	"flyball.dev/controllers/nodelifecycle"
	"flyball.dev/controllers/persistentvolume"
	"flyball.dev/controllers/podautoscaler"
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
	"flyball.dev/controllers/storageversionmigrator"
	"flyball.dev/controllers/tainteviction"
	"flyball.dev/controllers/ttl"
	"flyball.dev/controllers/ttlafterfinished"
	"flyball.dev/controllers/validatingadmissionpolicystatus"
	"flyball.dev/controllers/volumeexpansion"
	"flyball.dev/controllers/volumeprotection"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/manager"
)

// Options select and configure the controllers. The zero value selects all.
type Options struct {
	// Without has the names of the controllers that do not run; see [Names]. A controller of kube-controller-manager that does not
	// exist here is no error.
	Without []string
	// With has the names of the controllers that run although they are off by default, as in kube-controller-manager:
	// bootstrap-signer-controller and token-cleaner-controller. Without comes first. Names of other controllers have no effect; see
	// [Options.Missing].
	With []string
	// Pods configures how pods behave.
	Pods pods.Options
	// Stages, if not nil, plays kwok's stages: flyball.dev/controllers/stages has them. By default, the kind Stage is not
	// installed.
	Stages Stages
	// ClusterCIDR is the IPv4 network of the podCIDRs of the nodes, each a /24. The default is [nodeipam.DefaultClusterCIDR], or none if
	// the network of Pods is set; nodes then have only the podCIDRs that they bring. Pods on a node with a podCIDR have addresses of it
	// as long as one is free.
	ClusterCIDR netip.Prefix
	// ServiceNetwork is the range of cluster IPs. No node is assigned a podCIDR that overlaps it. A control plane sets it to its own.
	ServiceNetwork netip.Prefix
	// PodGC configures the pod garbage collector.
	PodGC podgc.Options
	// WithoutEvents makes the controllers record no events.
	WithoutEvents bool
	// ConfigFor returns the configuration of the clients of an identity. If it is nil, all controllers use the
	// manager's client.
	ConfigFor func(Identity) *rest.Config
	// NewClient creates the clients of the identities of ConfigFor. If it is nil, they are the default clients of a cluster.
	NewClient client.NewClientFunc
	// RootCA is the certificate, in PEM, that is published in every namespace, and with the tokens in
	// Secrets. If it is empty, nothing is published.
	RootCA []byte
	// Signer signs approved CertificateSigningRequests. If it is nil, nothing signs them.
	Signer *certificates.Authority
	// OnFailure, if not nil, is called when a controller ends with an error. The other controllers keep running.
	// OnFailure may be called from several goroutines at once. It may cancel the context of the manager, but must not
	// wait for the manager, which waits for OnFailure. If OnFailure is nil, the error stops the manager.
	OnFailure func(controller string, err error)
}

// descriptor is a controller by its name.
type descriptor struct {
	name     string
	identity Identity
	add      addFunc
}

// addFunc adds a controller to a manager.
type addFunc func(mgr manager.Manager, o Options, s *shared) error

// shared has the parts that the controllers of one manager have in common.
type shared struct {
	manager   manager.Manager
	inventory *inventory.Inventory // created at the first call of objects
	stages    pods.Stages          // nil without Options.Stages
	cidrs     *nodeipam.Allocator  // nil if nodes get no CIDRs
}

// objects returns the inventory.
func (s *shared) objects() (_ *inventory.Inventory, err error) {
	if s.inventory == nil {
		s.inventory, err = inventory.New(s.manager)
	}
	return s.inventory, err
}

// descriptors are all controllers. The names of kube-controller-manager's controllers are its own.
//
//upstream:cmd/kube-controller-manager/app.NewControllerDescriptors
//upstream:cmd/kube-controller-manager/names/
var descriptors = []descriptor{
	{"garbage-collector-controller", account("generic-garbage-collector"), withInventory(gc.AddToManager)},
	{"namespace-controller", account("namespace-controller"), withInventory(namespace.AddToManager)},
	{"serviceaccount-controller", account("service-account-controller"), withoutOptions(serviceaccount.AddToManager)},
	{"serviceaccount-token-controller", ManagerIdentity, func(mgr manager.Manager, o Options, _ *shared) error {
		return serviceaccounttoken.AddToManager(mgr, o.RootCA)
	}},
	{"root-ca-certificate-publisher-controller", account("root-ca-cert-publisher"), func(mgr manager.Manager, o Options, s *shared) error {
		if len(o.RootCA) == 0 {
			return nil
		}
		return rootca.AddToManager(mgr, s.manager.GetAPIReader(), o.RootCA)
	}},
	{"certificatesigningrequest-approving-controller", account("certificate-controller"), withoutOptions(certificates.AddApproverToManager)},
	{"certificatesigningrequest-cleaner-controller", account("certificate-controller"), withoutOptions(certificates.AddCleanerToManager)},
	{"certificatesigningrequest-signing-controller", account("certificate-controller"), func(mgr manager.Manager, o Options, _ *shared) error {
		if o.Signer == nil {
			return nil
		}
		return certificates.AddToManager(mgr, o.Signer)
	}},
	{"podcertificaterequest-cleaner-controller", account("podcertificaterequestcleaner"), withoutOptions(certificates.AddPodCleanerToManager)},
	{"bootstrap-signer-controller", account("bootstrap-signer"), withoutOptions(bootstraptoken.AddSignerToManager)},
	{"token-cleaner-controller", account("token-cleaner"), withoutOptions(bootstraptoken.AddCleanerToManager)},
	{"clusterrole-aggregation-controller", account("clusterrole-aggregation-controller"), withoutOptions(clusterroleaggregation.AddToManager)},
	{"deployment-controller", account("deployment-controller"), withoutOptions(deployment.AddToManager)},
	{"replicaset-controller", account("replicaset-controller"), withoutOptions(replicaset.AddToManager)},
	{"replicationcontroller-controller", account("replication-controller"), withoutOptions(replicaset.AddReplicationControllersToManager)},
	{"statefulset-controller", account("statefulset-controller"), withoutOptions(statefulset.AddToManager)},
	{"daemonset-controller", account("daemon-set-controller"), withoutOptions(daemonset.AddToManager)},
	{"horizontal-pod-autoscaler-controller", account("horizontal-pod-autoscaler"), withoutOptions(podautoscaler.AddToManager)},
	{"job-controller", account("job-controller"), withoutOptions(job.AddToManager)},
	{"cronjob-controller", account("cronjob-controller"), withoutOptions(cronjob.AddToManager)},
	{"ttl-after-finished-controller", account("ttl-after-finished-controller"), withoutOptions(ttlafterfinished.AddToManager)},
	{"disruption-controller", account("disruption-controller"), withoutOptions(disruption.AddToManager)},
	{"endpoints-controller", account("endpoint-controller"), withoutOptions(endpoints.AddToManager)},
	{"endpointslice-controller", account("endpointslice-controller"), withoutOptions(endpointslice.AddToManager)},
	{"endpointslice-mirroring-controller", account("endpointslicemirroring-controller"), withoutOptions(endpointslicemirroring.AddToManager)},
	{"node-ipam-controller", account("node-controller"), addNodeIPAM},
	{"node-lifecycle-controller", account("node-controller"), withoutOptions(nodelifecycle.AddToManager)},
	{"ttl-controller", account("ttl-controller"), withoutOptions(ttl.AddToManager)},
	{"resourcequota-controller", account("resourcequota-controller"), withInventory(resourcequota.AddToManager)},
	{"service-cidr-controller", account("service-cidrs-controller"), withoutOptions(servicecidr.AddToManager)},
	{"service-lb-controller", account("service-controller"), withoutOptions(loadbalancer.AddServicesToManager)},
	{ingressName, ingressIdentity, withoutOptions(loadbalancer.AddIngressesToManager)},
	{"scheduler", schedulerIdentity, withoutOptions(scheduler.AddToManager)},
	{"pods", nodeIdentity, func(mgr manager.Manager, o Options, s *shared) error {
		if s.cidrs == nil {
			return pods.AddToManager(mgr, o.Pods, s.stages, nil)
		}
		return pods.AddToManager(mgr, o.Pods, s.stages, s.cidrs.Awaits)
	}},
	{metricsServer, ManagerIdentity, func(manager.Manager, Options, *shared) error { return nil }}, // see Options.Usage
	{"persistentvolume-binder-controller", account("persistent-volume-binder"), withoutOptions(persistentvolume.AddToManager)},
	{"local-path-provisioner", provisionerIdentity, func(mgr manager.Manager, _ Options, _ *shared) error {
		return localpath.AddToManager(mgr, pods.NodeName)
	}},
	{"persistentvolume-expander-controller", account("expand-controller"), withoutOptions(volumeexpansion.AddToManager)},
	{"ephemeral-volume-controller", account("ephemeral-volume-controller"), withoutOptions(ephemeralvolume.AddToManager)},
	{"taint-eviction-controller", account("node-controller"), withoutOptions(tainteviction.AddToManager)},
	{"validatingadmissionpolicy-status-controller", account("validatingadmissionpolicy-status-controller"), withoutOptions(validatingadmissionpolicystatus.AddToManager)},
	{"storage-version-migrator-controller", account("storage-version-migrator-controller"), withoutOptions(storageversionmigrator.AddToManager)},
	{"persistentvolumeclaim-protection-controller", account("pvc-protection-controller"), withoutOptions(volumeprotection.AddClaimsToManager)},
	{"persistentvolume-protection-controller", account("pv-protection-controller"), withoutOptions(volumeprotection.AddVolumesToManager)},
	{"volumeattributesclass-protection-controller", account("volumeattributesclass-protection-controller"),
		withoutOptions(volumeprotection.AddClassesToManager)},
	{"pod-garbage-collector-controller", account("pod-garbage-collector"), func(mgr manager.Manager, o Options, _ *shared) error {
		return podgc.AddToManager(mgr, o.PodGC)
	}},
}

// addNodeIPAM adds the controller that assigns CIDRs to nodes. It comes before the controller of the pods, which wait for them.
func addNodeIPAM(mgr manager.Manager, o Options, s *shared) (err error) {
	switch {
	case o.ClusterCIDR.IsValid():
		s.cidrs, err = nodeipam.AddToManager(mgr, o.ClusterCIDR, o.ServiceNetwork)
	case !o.Pods.Network.IsValid():
		s.cidrs, err = nodeipam.AddToManager(mgr, nodeipam.DefaultClusterCIDR, o.ServiceNetwork)
	}
	return err
}

// withoutOptions adapts the AddToManager of a controller that needs only the manager.
func withoutOptions(add func(manager.Manager) error) addFunc {
	return func(mgr manager.Manager, _ Options, _ *shared) error { return add(mgr) }
}

// withInventory adapts the AddToManager of a controller that needs the inventory.
func withInventory(add func(manager.Manager, *inventory.Inventory) error) addFunc {
	return func(mgr manager.Manager, _ Options, s *shared) error {
		i, err := s.objects()
		if err != nil {
			return err
		}
		return add(mgr, i)
	}
}

// Names returns the names of all controllers, with the ones that are off by default.
func Names() []string {
	names := make([]string, len(descriptors))
	for i, d := range descriptors {
		names[i] = d.name
	}
	return names
}

// Names returns the names of the selected controllers, or an error if With or Without has an unknown name.
func (o *Options) Names() ([]string, error) {
	var all []string
	for _, d := range o.descriptors() {
		all = append(all, d.name)
	}
	for _, name := range slices.Concat(o.Without, o.With) {
		if !isKnown(all, name) {
			return nil, unknown(name)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains(o.Without, name) || offByDefault(name) && !slices.Contains(o.With, name)
	}), nil
}

// AddAll adds the selected controllers to the manager. The manager's client should have no rate
// limit, and its scheme must have the kinds of client-go's scheme.
func AddAll(mgr manager.Manager, o Options) error {
	selected, err := o.Names()
	if err != nil {
		return err
	}
	mgr = newIndexingManager(mgr)
	s := &shared{manager: mgr}
	users := &identities{manager: mgr, configFor: o.ConfigFor, newClient: o.NewClient, clusters: map[string]cluster.Cluster{}}
	for _, d := range o.descriptors() {
		if !slices.Contains(selected, d.name) {
			continue
		}
		own, err := users.managerFor(d.identity)
		if err == nil {
			err = d.add(newSupervisedManager(own, d.name, o), o, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}
