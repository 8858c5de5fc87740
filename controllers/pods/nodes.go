package pods

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/requeue"
	"flyball.dev/controllers/internal/restore"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// nodeNetwork has the addresses of nodes without one.
var nodeNetwork = netip.MustParsePrefix("10.0.0.0/16")

// nodeRequest returns the request for a node.
func nodeRequest(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// servedNode is a node with a kubelet that runs.
type servedNode struct {
	uid      types.UID
	address  string
	assigned bool         // it has CIDRs
	cidr     netip.Prefix // the IPv4 CIDR of its pods; the zero Prefix if it has none
}

// podCIDR returns the first IPv4 CIDR of a node for its pods, or the zero Prefix.
func podCIDR(node *corev1.Node) netip.Prefix {
	for _, cidr := range node.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is4() {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// servedNodes are the nodes with a kubelet that runs. Its methods may be called from several goroutines at once.
type servedNodes struct {
	mu    sync.RWMutex
	nodes map[string]servedNode
}

// get returns a node, or false if its kubelet does not run.
func (n *servedNodes) get(name string) (servedNode, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	node, ok := n.nodes[name]
	return node, ok
}

// hasAddress reports whether a node has an address.
func (n *servedNodes) hasAddress(address string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, node := range n.nodes {
		if node.address == address {
			return true
		}
	}
	return false
}

// set sets a node, and reports whether it is another one than before. A node without an address is removed.
func (n *servedNodes) set(name string, node servedNode) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if node.address == "" {
		_, ok := n.nodes[name]
		delete(n.nodes, name)
		return ok
	}
	if n.nodes[name] == node {
		return false
	}
	n.nodes[name] = node
	return true
}

// isResponsible reports whether this controller handles a pod: the kubelet of its node runs, or the pod was deleted before
// it was bound.
func (n *servedNodes) isResponsible(pod *corev1.Pod) bool {
	_, ok := n.get(pod.Spec.NodeName)
	return ok || pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil
}

// nodeEvents returns the handler that updates the served nodes. It enqueues the pods on a node that has another address or CIDR now.
func (r *reconciler) nodeEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	set := func(ctx context.Context, o client.Object, q queue) {
		node, served := o.(*corev1.Node), servedNode{}
		if r.options.runs(node) {
			served = servedNode{node.UID, internalIP(node), len(node.Spec.PodCIDRs) > 0, podCIDR(node)}
		}
		if !r.nodes.set(node.Name, served) || served.address == "" {
			return
		}
		pods, err := podstate.OnNode(ctx, r.client, node.Name)
		if err != nil {
			return // the cache has stopped
		}
		for i := range pods {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods[i])})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { set(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { set(ctx, e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			r.nodes.set(e.Object.GetName(), servedNode{})
			r.addresses.forget(podCIDR(e.Object.(*corev1.Node)))
		},
	}
}

// addNodes adds the controller of the nodes: it keeps them ready, and renews their leases.
//
//upstream:pkg/kubelet.Kubelet.syncNodeStatus
func addNodes(mgr manager.Manager, o *Options, stages Stages) error {
	r := &nodeReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o, addresses: newAddresses(nodeNetwork), leases: newLeases(), reports: newReports(),
		stages: stages}
	runs := predicate.NewPredicateFuncs(func(node client.Object) bool { return o.runs(node.(*corev1.Node)) })
	// A node that a stage cannot change comes back in time for the renewal of its lease.
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, renewInterval)
	return builder.ControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Or(runs, watches.OnlyDeletes))).
		WatchesRawSource(source.Func(r.onStages)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.allNodes), builder.WithPredicates(watches.Named(corev1.NamespaceNodeLease))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retries}).
		Complete(r)
}

// nodeReconciler reconciles the nodes and their leases.
type nodeReconciler struct {
	client    client.Client
	live      client.Reader
	options   *Options
	addresses *addresses
	restored  restore.Once // the addresses
	leases    *leases
	reports   *reports
	stages    Stages // nil if there are none
}

// allNodes maps an object to all nodes.
func (r *nodeReconciler) allNodes(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes); err != nil {
		return nil // the cache has stopped
	}
	for i := range nodes.Items {
		requests = append(requests, nodeRequest(nodes.Items[i].Name))
	}
	return requests
}

// Reconcile keeps a node ready, and renews its lease when that is due, also while a finalizer delays the deletion of the node.
//
//upstream:pkg/kubelet.Kubelet.updateNodeStatus
func (r *nodeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx = withNode(ctx, req.Name)
	node := &corev1.Node{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil {
		r.leases.forget(req.Name)
		r.reports.forget(req.Name)
		if r.stages != nil {
			r.stages.Forget(&corev1.Node{}, req.NamespacedName)
		}
		r.addresses.release(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.options.runs(node) {
		return reconcile.Result{}, nil
	}
	address, err := r.address(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	played, next, playErr := r.play(ctx, node, address)
	if !played && playErr == nil {
		if err := r.update(ctx, node, address); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if r.options.WithoutLeases {
		return requeue.After(next, playErr)
	}
	after, err := r.renew(ctx, node, time.Now()) // also if a stage fails
	if next > 0 {
		after = min(after, next)
	}
	return requeue.After(after, errors.Join(playErr, err))
}

// update registers a node, and updates its status. Its writes are patches: if the cache is behind the taints of the node, they
// fail with a conflict, and NodeRestriction does not refuse them as changes of the taints.
func (r *nodeReconciler) update(ctx context.Context, node *corev1.Node, address string) error {
	before := node.DeepCopy()
	if register(node) {
		if err := r.client.Patch(ctx, node, lockedPatch(before)); err != nil {
			return err
		}
	}
	now := time.Now()
	status := nodeStatus(node, address, now)
	changed := !equality.Semantic.DeepEqual(status, node.Status)
	if !changed && (r.options.WithoutLeases || !r.reports.due(node, now)) {
		return nil
	}
	setHeartbeats(&status, metav1.NewTime(now))
	before = node.DeepCopy()
	node.Status = status
	err := r.client.Status().Patch(ctx, node, lockedPatch(before))
	if err == nil {
		r.reports.set(node.Name, now, changed)
	}
	return err
}

// lockedPatch returns a patch of an object that has not changed since.
func lockedPatch(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// address returns the internal address of a node. It is the address that the node has, unless the address is of the
// nodes' network and of another node.
func (r *nodeReconciler) address(ctx context.Context, node *corev1.Node) (string, error) {
	if err := r.restored.Do(ctx, r.restoreAddresses); err != nil {
		return "", err
	}
	return addressOf(node, r.addresses), nil
}

// addressOf returns the internal address of a node, and allocates it if it is of the nodes' network.
func addressOf(node *corev1.Node, from *addresses) string {
	has, key := internalIP(node), client.ObjectKeyFromObject(node)
	if addr, err := netip.ParseAddr(has); err == nil && !nodeNetwork.Contains(addr) {
		return has
	}
	from.occupy(key, has, netip.Prefix{})
	return from.allocate(key, netip.Prefix{})
}

// restoreAddresses allocates the addresses that nodes have in their status.
func (r *nodeReconciler) restoreAddresses(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		r.addresses.occupy(client.ObjectKeyFromObject(&nodes.Items[i]), internalIP(&nodes.Items[i]), netip.Prefix{})
	}
	return nil
}
