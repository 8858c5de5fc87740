package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/bench/fixture"
)

// createNodesAndNamespaces creates the nodes and the namespaces of all pods.
func createNodesAndNamespaces(ctx context.Context, client kubernetes.Interface) error {
	if err := createNodes(ctx, client); err != nil {
		return err
	}
	return createNamespaces(ctx, client)
}

// createNodes creates the nodes of all pods. No kubelet runs pods there. The nodes stay ready until ctx ends.
func createNodes(ctx context.Context, client kubernetes.Interface) error {
	for i, first := 0, ""; ; i += fixture.Namespaces {
		name := fixture.Node(i)
		if name == first {
			return nil
		}
		if i == 0 {
			first = name
		}
		if err := keepReady(ctx, client, name); err != nil {
			return err
		}
	}
}

// keepReady creates a ready node and renews its lease as a kubelet does, so that no controller evicts the pods on it.
func keepReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	_, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())}}
	if lease, err = leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return err
	}
	go func() {
		for sleep(ctx, 10*time.Second) == nil {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			if renewed, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
				lease = renewed
			}
		}
	}()
	return nil
}
