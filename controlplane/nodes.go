package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/clientscheme"
)

// Nodes stops and starts the kubelets of the nodes of a control plane. Its methods are safe for concurrent use.
type Nodes struct{ plane *ControlPlane }

// Nodes returns the nodes of the control plane.
func (c *ControlPlane) Nodes() Nodes { return Nodes{c} }

// Stop stops the kubelet of a node, as if the node were lost: the node is not ready within a minute, and is tainted, and the
// node-lifecycle-controller evicts the pods that do not tolerate the taint any longer. Processes of the pods go on, out of reach.
//
// Stop sets [pods.KubeletAnnotation] to [pods.KubeletStopped], and the kubelet follows a moment later. It stays stopped when a control
// plane starts again with the data. A kubelet that is stopped already stays so. Stop returns the error of the API server if there is no
// such node, and a conflict if the control plane does not simulate the kubelet of the node.
func (n Nodes) Stop(name string) error { return n.annotate(name, pods.KubeletStopped) }

// Start starts the kubelet of a node again, a moment later. It continues with the pods on the node. Start returns the errors of
// [Nodes.Stop].
func (n Nodes) Start(name string) error { return n.annotate(name, pods.KubeletRunning) }

// annotate says whether the kubelet of a node runs.
func (n Nodes) annotate(name, kubelet string) error {
	ctx := context.Background()
	c, err := client.New(n.plane.Config(), client.Options{Scheme: clientscheme.Scheme()})
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	if n.plane.controllers == nil || !n.plane.options.Controllers.Pods.Simulates(node) {
		return apierrors.NewConflict(corev1.Resource("nodes"), name, fmt.Errorf("the kubelet of node %q does not belong to this control plane", name))
	}
	before := client.MergeFrom(node.DeepCopy())
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, pods.KubeletAnnotation, kubelet)
	return c.Patch(ctx, node, before)
}
