package pods

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// The node of the pods.
const (
	NodeName = "flyball"
	NodeIP   = "10.0.0.1"
)

// User is the user name of the node.
const User = "system:node:" + NodeName

// capacity is the capacity of the node.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("10k"),
	corev1.ResourceMemory:           resource.MustParse("64Ti"),
	corev1.ResourceEphemeralStorage: resource.MustParse("64Ti"),
	corev1.ResourcePods:             resource.MustParse("1M"),
}

// nodeRequest is the request for the node.
var nodeRequest = reconcile.Request{NamespacedName: types.NamespacedName{Name: NodeName}}

// addNode adds the controller that creates the node, keeps it ready and renews its lease.
//
//upstream:pkg/kubelet.Kubelet.registerWithAPIServer
func addNode(mgr manager.Manager) error {
	atStart := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(nodeRequest)
		return nil
	})
	return builder.ControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.WithPredicates(watches.Named(NodeName))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(toNode), builder.WithPredicates(watches.Named(corev1.NamespaceNodeLease))).
		WatchesRawSource(atStart).
		Complete(&nodeReconciler{mgr.GetClient(), mgr.GetAPIReader()})
}

// toNode maps every object to the node.
func toNode(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{nodeRequest}
}

// nodeReconciler reconciles the node and its lease.
type nodeReconciler struct {
	client client.Client
	live   client.Reader
}

// Reconcile creates the node, keeps it ready, and renews its lease when that is due.
//
//upstream:pkg/kubelet.Kubelet.tryRegisterWithAPIServer
//upstream:pkg/kubelet.Kubelet.syncNodeStatus
func (r *nodeReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	err := r.client.Get(ctx, nodeRequest.NamespacedName, node)
	if apierrors.IsNotFound(err) {
		node = newNode()
		err = r.client.Create(ctx, node)
	}
	if err != nil || node.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreAlreadyExists(err)
	}
	if status := nodeStatus(node.Status, metav1.Now()); !equality.Semantic.DeepEqual(status, node.Status) {
		node.Status = status
		if err := r.client.Status().Update(ctx, node); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	after, err := r.renew(ctx, node, time.Now())
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// newNode returns the node, without its status.
//
//upstream:pkg/kubelet.Kubelet.initialNode
func newNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: NodeName,
		Labels: map[string]string{
			corev1.LabelHostname:   NodeName,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		},
	}}
}

// nodeStatus returns the status of the ready node. A condition that does not change keeps its
// times.
func nodeStatus(old corev1.NodeStatus, now metav1.Time) corev1.NodeStatus {
	s := *old.DeepCopy()
	s.Capacity, s.Allocatable = capacity.DeepCopy(), capacity.DeepCopy()
	s.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: NodeIP},
		{Type: corev1.NodeHostName, Address: NodeName},
	}
	s.NodeInfo.OperatingSystem, s.NodeInfo.Architecture = "linux", "amd64"
	s.NodeInfo.KubeletVersion, s.NodeInfo.ContainerRuntimeVersion = "flyball", "flyball://"
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.NodeReady && s.Conditions[i].Status == corev1.ConditionTrue {
			return s
		}
	}
	s.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the node exists in name only",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	return s
}
