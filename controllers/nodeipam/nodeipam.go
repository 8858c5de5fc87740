// Package nodeipam assigns a CIDR of the cluster's network to each node, for the addresses of its pods.
//
// A node that has a podCIDR keeps it, and no other node is assigned one that overlaps it. The CIDR of a deleted node is free again.
package nodeipam

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/restore"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// DefaultClusterCIDR has a CIDR for each of 1,024 nodes.
var DefaultClusterCIDR = netip.MustParsePrefix("10.244.0.0/14")

// maskSize is the length of the CIDR of a node.
//
//upstream:cmd/kube-controller-manager/app.defaultNodeMaskCIDRIPv4
const maskSize = 24

// Allocator is the controller.
type Allocator struct {
	client   client.Client
	recorder record.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request] // set before the first Reconcile

	// The fields from here on are for Reconcile, which runs in one goroutine.
	blocks   blocks
	nodes    map[string]*assignment
	waiting  map[string]types.UID // nodes without a CIDR, since none is free
	restored restore.Once

	mu      sync.Mutex
	refused map[types.UID]bool // nodes that have been refused a CIDR
}

// assignment has the CIDR of a node.
type assignment struct {
	uid     types.UID
	cidrs   []string
	written bool // the node has the CIDRs, although the cache may be behind
}

// AddToManager adds the controller with the network of the cluster. No node is assigned a CIDR that overlaps services, the range of
// cluster IPs, which may be the zero Prefix.
//
//upstream:pkg/controller/nodeipam/ipam.NewCIDRRangeAllocator
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.filterOutServiceRange
func AddToManager(mgr manager.Manager, cluster, services netip.Prefix) (*Allocator, error) {
	if !cluster.Addr().Is4() || cluster.Bits() > maskSize {
		return nil, fmt.Errorf("the cluster CIDR %s is not an IPv4 network with room for the /%d of a node", cluster, maskSize)
	}
	a := &Allocator{
		client: mgr.GetClient(), recorder: events.RecorderFor(mgr, "cidrAllocator"), blocks: newBlocks(cluster),
		nodes: map[string]*assignment{}, waiting: map[string]types.UID{}, refused: map[types.UID]bool{},
	}
	a.blocks.add(services, 1)
	return a, builder.ControllerManagedBy(mgr).
		Named("node-ipam").
		For(&corev1.Node{}).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			a.queue = q
			return nil
		})).
		Complete(a)
}

// Awaits reports whether a node without a CIDR is about to get one: it has not been refused one yet. Awaits may be called from several
// goroutines at once.
func (a *Allocator) Awaits(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.refused[uid]
}

// refuse notes whether a node has been refused a CIDR.
func (a *Allocator) refuse(uid types.UID, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused[uid] = refused; !refused {
		delete(a.refused, uid)
	}
}

// Reconcile assigns a CIDR to a node without one, and notes the CIDR of a node that has one.
//
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.syncNode
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.AllocateOrOccupyCIDR
func (a *Allocator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := a.restored.Do(ctx, a.restore); err != nil {
		return reconcile.Result{}, err
	}
	node := &corev1.Node{}
	err := a.client.Get(ctx, req.NamespacedName, node)
	switch {
	case apierrors.IsNotFound(err):
		a.release(req.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	case len(node.Spec.PodCIDRs) > 0:
		a.occupy(node)
		return reconcile.Result{}, nil
	case node.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	}
	has := a.nodes[node.Name]
	if has == nil || has.uid != node.UID {
		a.release(node.Name)
		free, ok := a.blocks.nextFree()
		if !ok {
			a.waiting[node.Name] = node.UID
			a.refuse(node.UID, true)
			a.event(node, "CIDRNotAvailable")
			return reconcile.Result{}, nil
		}
		has = &assignment{uid: node.UID, cidrs: []string{free.String()}}
		a.assign(node.Name, has)
	}
	if has.written {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, a.write(ctx, node, has)
}

// write sets the CIDR of a node. If that fails, the node may have it nevertheless, so the next attempt writes the same CIDR.
//
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.updateCIDRsAllocation
func (a *Allocator) write(ctx context.Context, node *corev1.Node, has *assignment) error {
	before := node.DeepCopy()
	node.Spec.PodCIDR, node.Spec.PodCIDRs = has.cidrs[0], has.cidrs
	err := a.client.Patch(ctx, node, client.StrategicMergeFrom(before))
	switch {
	case apierrors.IsNotFound(err):
		return nil // the deletion causes another reconcile
	case err != nil:
		a.refuse(before.UID, true)
		a.event(before, "CIDRAssignmentFailed")
		return err
	}
	has.written = true
	a.refuse(node.UID, false)
	return nil
}

// event records that a node has no CIDR.
//
//upstream:pkg/controller/util/node.RecordNodeStatusChange
func (a *Allocator) event(node *corev1.Node, reason string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	a.recorder.Eventf(ref, corev1.EventTypeNormal, reason, "Node %s status is now: %s", node.Name, reason)
}

// restore notes the CIDRs of all nodes.
func (a *Allocator) restore(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := a.client.List(ctx, nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; len(node.Spec.PodCIDRs) > 0 {
			a.occupy(node)
		}
	}
	return nil
}

// occupy notes the CIDRs of a node that has some.
//
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.occupyCIDRs
func (a *Allocator) occupy(node *corev1.Node) {
	if has := a.nodes[node.Name]; has != nil && has.written && has.uid == node.UID {
		return // they never change
	}
	a.release(node.Name)
	a.assign(node.Name, &assignment{node.UID, node.Spec.PodCIDRs, true})
}

// assign notes the CIDRs of a node without one.
func (a *Allocator) assign(name string, to *assignment) {
	a.nodes[name] = to
	a.use(to, 1)
}

// use adds to the number of users of the CIDRs of a node.
func (a *Allocator) use(of *assignment, users int) {
	for _, cidr := range of.cidrs {
		if network, err := netip.ParsePrefix(cidr); err == nil {
			a.blocks.add(network, users)
		}
	}
}

// release frees the CIDRs of a node, and enqueues the nodes that wait for one.
//
//upstream:pkg/controller/nodeipam/ipam.rangeAllocator.ReleaseCIDR
func (a *Allocator) release(name string) {
	a.refuse(a.waiting[name], false)
	delete(a.waiting, name)
	has := a.nodes[name]
	if has == nil {
		return
	}
	delete(a.nodes, name)
	a.refuse(has.uid, false)
	a.use(has, -1)
	for other := range a.waiting {
		a.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: other}})
	}
}

// blocks are the CIDRs of a cluster. Used has how many nodes have the CIDR or a part of it; the range of cluster IPs counts as one.
type blocks struct {
	cluster netip.Prefix
	first   uint32
	len     int
	next    int
	used    map[int]int
}

func newBlocks(cluster netip.Prefix) blocks {
	cluster = cluster.Masked()
	return blocks{cluster, toNumber(cluster.Addr()), 1 << (maskSize - cluster.Bits()), 0, map[int]int{}}
}

// toNumber returns an IPv4 address as a number.
func toNumber(address netip.Addr) uint32 {
	bytes := address.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// nextFree returns the next CIDR that no node has, so that the CIDR of a deleted node is the last to come again.
//
//upstream:pkg/controller/nodeipam/ipam/cidrset.CidrSet.AllocateNext
func (b *blocks) nextFree() (netip.Prefix, bool) {
	if len(b.used) == b.len {
		return netip.Prefix{}, false
	}
	for b.used[b.next] > 0 {
		b.next = (b.next + 1) % b.len
	}
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], b.first+uint32(b.next)<<(32-maskSize))
	b.next = (b.next + 1) % b.len
	return netip.PrefixFrom(netip.AddrFrom4(bytes), maskSize), true
}

// add adds to the number of users of the CIDRs that overlap a network, which may be outside the cluster's network.
//
//upstream:pkg/controller/nodeipam/ipam/cidrset.CidrSet.getBeginningAndEndIndices
func (b *blocks) add(network netip.Prefix, users int) {
	if !network.Overlaps(b.cluster) {
		return
	}
	begin, end := 0, b.len-1
	if network.Bits() > b.cluster.Bits() {
		begin = int((toNumber(network.Masked().Addr()) - b.first) >> (32 - maskSize))
		end = begin + 1<<max(maskSize-network.Bits(), 0) - 1
	}
	for i := begin; i <= end; i++ {
		if b.used[i] += users; b.used[i] == 0 {
			delete(b.used, i)
		}
	}
}
