package node_test

import (
	"context"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controlplane"
)

// TestHostileNode checks that in the mode Node, a compromised node can change neither its own labels and taints nor the
// pods of another node, because NodeRestriction rejects the requests.
func TestHostileNode(t *testing.T) {
	for name, restricted := range map[string]bool{"restricted": true, "without NodeRestriction": false} {
		t.Run(name, func(t *testing.T) {
			o := controlplane.Options{WithoutControllers: true, AuthorizationMode: "Node,RBAC"}
			if !restricted {
				o.Admission.Disable = []string{admission.NodeRestriction}
			}
			plane := controlplanetest.Start(t, o)
			createNodeObjects(t, controlplanetest.ClientFor(t, plane.Config()))
			hostile := controlplanetest.As(t, plane, "system:node:one", "system:nodes")
			own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{corev1.LabelHostname: "one"}}}
			controlplanetest.Must[*corev1.Node](t)(hostile.CoreV1().Nodes().Create(t.Context(), own, metav1.CreateOptions{}))
			for attempt, tc := range attempts {
				err := tc.do(t.Context(), hostile)
				if restricted && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refusal)) {
					t.Errorf("%s: %v; want %s", attempt, err, tc.refusal)
				}
				if !restricted && apierrors.IsForbidden(err) {
					t.Errorf("%s was refused without the plugin: %v", attempt, err)
				}
			}
		})
	}
}

// attempts are the requests of a hostile node, each with its error. The mode Node alone allows them.
var attempts = map[string]struct {
	do      func(context.Context, *kubernetes.Clientset) error
	refusal string
}{
	"to attract pods by a label": {patchNode(`{"metadata":{"labels":{"a.node-restriction.kubernetes.io/secure":"true"}}}`), "is not allowed to modify labels: a.node-restriction.kubernetes.io/secure"},
	"to repel pods by a taint":   {patchNode(`{"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]}}`), `node "one" is not allowed to modify taints`},
	"to become another's": {patchNode(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"two","uid":"x"}]}}`),
		`node "one" is not allowed to modify ownerReferences`},
	"to evict a pod of another node": {func(ctx context.Context, c *kubernetes.Clientset) error {
		return c.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "b"},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
	}, "node one can only evict pods with spec.nodeName set to itself"},
	"to delete a pod of another node": {func(ctx context.Context, c *kubernetes.Clientset) error {
		return c.CoreV1().Pods("default").Delete(ctx, "b", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}, `node "one" can only delete pods with spec.nodeName set to itself`},
	"to fail a pod of another node": {func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Pods("default").Patch(ctx, "b", types.MergePatchType, []byte(`{"status":{"reason":"x"}}`), metav1.PatchOptions{}, "status")
		return err
	}, `node "one" can only update pod status for pods with spec.nodeName set to itself`},
	"to run a pod on another node": {createPod("two", true), `node "one" can only create pods with spec.nodeName set to itself`},
	"to run a pod with an account": {createPod("one", false), `pod does not have "kubernetes.io/config.mirror" annotation, node "one" can only create mirror pods`},
	"to get a token of an account without a pod": {func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "a-account", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			err = nil // the account does not exist
		}
		return err
	}, "node requested token not bound to a pod"},
}

// patchNode returns an attempt to patch the own node.
func patchNode(patch string) func(context.Context, *kubernetes.Clientset) error {
	return func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Nodes().Patch(ctx, "one", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// createPod returns an attempt to create a pod on a node, as the mirror of a static pod or not.
func createPod(node string, mirror bool) func(context.Context, *kubernetes.Clientset) error {
	return func(ctx context.Context, c *kubernetes.Clientset) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		if mirror {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}
		_, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}
