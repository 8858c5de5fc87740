package controllers

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/recorder"
)

// Identity is the user that makes the requests of a controller.
type Identity struct {
	// User is the name of the user, and Groups are its groups without system:authenticated.
	User   string
	Groups []string
	// UserAgent begins with the field manager of the controller's writes.
	UserAgent string
	// Nodes says that the controller makes requests for many nodes, each with the user name of [pods.UserOf]. Their groups are
	// Groups, and User makes the requests of no single node.
	Nodes bool
}

// managerName is the prefix of the user agents of kube-controller-manager's controllers.
const managerName = "kube-controller-manager"

// ManagerIdentity is the identity of the manager's own client, kube-controller-manager. The client may list and watch
// everything, and fills the cache that all controllers share.
var ManagerIdentity = Identity{User: user.KubeControllerManager, UserAgent: managerName}

// ingressName is the name of the controller of Ingresses.
const ingressName = "ingress-controller"

// Identities of controllers that are not part of Kubernetes: the provisioner uses the service account of
// local-path-provisioner in k3s, the controller of Ingresses has one of its own, and the stand-in for kubelets uses the users of
// the nodes.
var (
	schedulerIdentity   = Identity{User: user.KubeScheduler, UserAgent: "kube-scheduler"}
	provisionerIdentity = accountOf("local-path-provisioner-service-account", "local-path-provisioner")
	ingressIdentity     = accountOf(ingressName, ingressName)
	nodeIdentity        = Identity{User: pods.User, Groups: pods.Groups(), UserAgent: "kubelet", Nodes: true}
)

// account returns the identity of a controller of kube-controller-manager: a service account in kube-system.
//
//upstream:plugin/pkg/auth/authorizer/rbac/bootstrappolicy.buildControllerRoles
func account(name string) Identity {
	id := accountOf(name, managerName)
	id.UserAgent += "/" + id.User
	return id
}

// accountOf returns the identity of a program with a service account in kube-system.
func accountOf(name, program string) Identity {
	info := serviceaccount.UserInfo(metav1.NamespaceSystem, name, "")
	return Identity{User: info.GetName(), Groups: info.GetGroups(), UserAgent: program}
}

// serviceAccount returns the name of the identity's service account in kube-system, or false if the identity is another
// user.
func (i Identity) serviceAccount() (name string, ok bool) {
	_, name, err := serviceaccount.SplitUsername(i.User)
	return name, err == nil
}

// IdentityOf returns the identity of the named controller, or false if there is no such controller.
func IdentityOf(name string) (Identity, bool) {
	for _, d := range descriptors {
		if d.name == name {
			return d.identity, true
		}
	}
	return Identity{}, false
}

// identities holds, for each identity, a cluster with the manager's cache and the identity's own client.
type identities struct {
	manager   manager.Manager
	configFor func(Identity) *rest.Config // nil if all requests are made by the manager's client
	newClient client.NewClientFunc        // nil for the default
	clusters  map[string]cluster.Cluster  // by user
}

// managerFor returns the manager for the controllers of an identity.
func (i *identities) managerFor(id Identity) (manager.Manager, error) {
	if i.configFor == nil || id.User == ManagerIdentity.User {
		return i.manager, nil
	}
	c, ok := i.clusters[id.User]
	if !ok {
		var err error
		if c, err = i.newCluster(id); err != nil {
			return nil, err
		}
		i.clusters[id.User] = c
	}
	return &identifiedManager{i.manager, c}, nil
}

// newCluster returns a cluster that writes with an identity, and adds the cluster to the manager, which runs its event
// recorders.
func (i *identities) newCluster(id Identity) (cluster.Cluster, error) {
	c, err := cluster.New(i.configFor(id), func(o *cluster.Options) {
		o.Scheme, o.Logger = i.manager.GetScheme(), i.manager.GetLogger()
		o.NewClient = manager.RecordClient(i.manager, i.newClient)
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return i.manager.GetRESTMapper(), nil }
		o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return sharedCache{i.manager.GetCache()}, nil }
	})
	if err != nil {
		return nil, err
	}
	return c, i.manager.Add(c)
}

// sharedCache is the manager's cache within another cluster. Only the manager starts the cache.
type sharedCache struct{ cache.Cache }

// Start waits until ctx ends.
func (sharedCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// identifiedManager is the manager for the controllers of one identity. The controllers write with that identity, and
// read from the manager's cache.
type identifiedManager struct {
	manager.Manager
	identity cluster.Cluster
}

// WrappedManager returns the manager of all identities, which may have a console.
func (m *identifiedManager) WrappedManager() manager.Manager { return m.Manager }

func (m *identifiedManager) GetClient() client.Client    { return m.identity.GetClient() }
func (m *identifiedManager) GetAPIReader() client.Reader { return m.identity.GetAPIReader() }
func (m *identifiedManager) GetConfig() *rest.Config     { return m.identity.GetConfig() }
func (m *identifiedManager) GetHTTPClient() *http.Client { return m.identity.GetHTTPClient() }
func (m *identifiedManager) GetEventRecorder(name string) recorder.EventRecorder {
	return m.identity.GetEventRecorder(name)
}

// GetEventRecorderFor implements [recorder.Provider].
func (m *identifiedManager) GetEventRecorderFor(name string) record.EventRecorder {
	//lint:ignore SA1019 it implements the deprecated method
	return m.identity.GetEventRecorderFor(name)
}
