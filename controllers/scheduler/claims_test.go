package scheduler_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestPodsWaitForClaims creates pods before their claims and volumes.
func TestPodsWaitForClaims(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		using := func(claim string) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			}
		}
		unschedulable := func(reason string) string {
			return "Pending Unschedulable: 0/1 nodes are available: " + reason
		}
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
		e.CreateAll(class)
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("p", "a", using("missing")), controllerstest.Pod("q", "a", using("waiting")))
		e.WaitIdle()
		e.WantScheduled("p", unschedulable(`persistentvolumeclaim "missing" not found. not found`))
		e.CreateAll(controllerstest.Claim("missing", "1Gi", ""), controllerstest.Claim("waiting", "1Gi", "static"))
		e.WaitIdle()
		e.WantScheduled("p", unschedulable("pod has unbound immediate PersistentVolumeClaims. not found"))
		e.WantScheduled("q", unschedulable("1 node(s) didn't find available persistent volumes to bind. "+
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))
		e.CreateAll(controllerstest.Volume("v", "1Gi", ""), controllerstest.Volume("w", "1Gi", "static"))
		e.WaitIdle()
		e.WantScheduled("p", controllerstest.OnFlyball)
		e.WantScheduled("q", controllerstest.OnFlyball)
	})
}

// TestPodsWaitForProvisioners: a pod is not bound before its claims are. If a provisioner takes back the selected node, the pod is
// scheduled again, and another node is selected.
func TestPodsWaitForProvisioners(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/slow",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)})
		e.CreateAll(controllerstest.Claim("data", "1Gi", "slow"), controllerstest.Pod("p", "a", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}))
		e.WaitIdle()
		selected := func() *corev1.PersistentVolumeClaim {
			claim := &corev1.PersistentVolumeClaim{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "data"}, claim))
			if node := claim.Annotations["volume.kubernetes.io/selected-node"]; node != "flyball" {
				t.Errorf("the selected node is %q", node)
			}
			return claim
		}
		claim := selected()
		if p := e.Pod("p"); p.Spec.NodeName != "" || p.Status.NominatedNodeName != "flyball" {
			t.Errorf("the pod is on %q and nominated for %q", p.Spec.NodeName, p.Status.NominatedNodeName)
		}
		delete(claim.Annotations, "volume.kubernetes.io/selected-node")
		e.Must(e.Update(e.Context(), claim))
		e.WaitIdle()
		claim = selected()
		v := controllerstest.Volume("v", "1Gi", "slow")
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: claim.UID}
		e.CreateAll(v)
		e.WaitIdle()
		e.WantScheduled("p", controllerstest.OnFlyball)
	})
}

func usingData(s *corev1.PodSpec) {
	s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
}

// notOn selects all nodes but one.
func notOn(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}}}}}}}
}

// reserveNode creates a pod with a claim of a slow provisioner, and returns the reserved node.
func reserveNode(e controllerstest.Env) string {
	e.WaitIdle()
	e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/slow",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		controllerstest.Claim("data", "1Gi", "slow"), controllerstest.Pod("p", "a", usingData))
	e.WaitIdle()
	p := e.Pod("p")
	if p.Spec.NodeName != "" || p.Status.NominatedNodeName == "" {
		e.Fatalf("the pod is on %q and nominated for %q", p.Spec.NodeName, p.Status.NominatedNodeName)
	}
	return p.Status.NominatedNodeName
}

// provision creates the volume of the claim.
func provision(e controllerstest.Env, affinity *corev1.VolumeNodeAffinity) {
	claim := &corev1.PersistentVolumeClaim{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "data"}, claim))
	v := controllerstest.Volume("v", "1Gi", "slow")
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: claim.UID}
	v.Spec.NodeAffinity = affinity
	e.CreateAll(v)
	e.WaitIdle()
}

func wantPreBindFailure(e controllerstest.Env, message string) {
	e.Helper()
	e.WantEvent("p", "Warning FailedScheduling", `running PreBind plugin "VolumeBinding": binding volumes: `+message)
}

// TestReservedNodeIsDeleted: a pod is not bound to a node that was deleted while it waited for its volumes.
func TestReservedNodeIsDeleted(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		node := reserveNode(e)
		e.Must(e.Delete(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
		e.WaitIdle()
		wantPreBindFailure(e, `failed to get node "`+node+`": node "`+node+`" not found`)
		provision(e, nil)
		if got := e.Pod("p").Spec.NodeName; got == node || got == "" {
			t.Errorf("the pod is on %q, and %q was deleted", got, node)
		}
	})
}

// TestProvisionedElsewhere: a pod follows a volume that the reserved node cannot use.
func TestProvisionedElsewhere(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		node := reserveNode(e)
		provision(e, notOn(node))
		wantPreBindFailure(e, `pv "v" node affinity doesn't match node "`+node+`": no matching NodeSelectorTerms`)
		if got := e.Pod("p").Spec.NodeName; got == node || got == "" {
			t.Errorf("the pod is on %q, and its volume is not on %q", got, node)
		}
	})
}

// TestReservedVolumeChanges: a pod is scheduled again if the node can no longer use a volume that existed, or if the volume loses its
// claim.
func TestReservedVolumeChanges(t *testing.T) {
	controllerstest.WithController(t, "scheduler", func(controllerstest.Env) interceptor.Funcs { return interceptor.Funcs{} }, func(e controllerstest.Env) {
		createNode(e, "n", map[string]string{corev1.LabelHostname: "n"})
		v, claim := controllerstest.Volume("v", "1Gi", "static"), controllerstest.Claim("data", "1Gi", "static")
		v.Spec.NodeAffinity = notOn("elsewhere")
		e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}, v, claim)
		v.Status.Phase = corev1.VolumeAvailable
		e.Must(e.Status().Update(e.Context(), v))
		e.CreateAll(controllerstest.Pod("p", "a", usingData))
		e.WaitIdle()
		reserved := func() {
			t.Helper()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(v), v))
			if p := e.Pod("p"); p.Spec.NodeName != "" || p.Status.NominatedNodeName != "n" || v.Spec.ClaimRef == nil {
				t.Fatalf("the pod is on %q and nominated for %q, and the volume is bound to %v", p.Spec.NodeName, p.Status.NominatedNodeName, v.Spec.ClaimRef)
			}
		}
		reserved()
		v.Spec.ClaimRef = nil
		e.Must(e.Update(e.Context(), v))
		e.WaitIdle()
		wantPreBindFailure(e, `ClaimRef got reset for pv "v"`)
		reserved()
		changeNode(e, "n", func(n *corev1.Node) { n.Labels[corev1.LabelHostname] = "elsewhere" })
		wantPreBindFailure(e, `pv "v" node affinity doesn't match node "n": no matching NodeSelectorTerms`)
		changeNode(e, "n", func(n *corev1.Node) { n.Labels[corev1.LabelHostname] = "n" })
		reserved()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		claim.Spec.VolumeName = "v"
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		e.Must(e.Update(e.Context(), claim))
		e.WaitIdle()
		e.WantScheduled("p", `Pending on "n"`)
	})
}

// TestProvisionedOnce: an event of a claim between the binding of its pod and the event of the binding does not bind the pod again.
func TestProvisionedOnce(t *testing.T) {
	var bindings atomic.Int32
	controllerstest.WithController(t, "scheduler", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			bindings.Add(1)
			return nil // and the event never comes
		}}
	}, func(e controllerstest.Env) {
		createNode(e, "n", nil)
		reserveNode(e)
		provision(e, nil)
		claim := &corev1.PersistentVolumeClaim{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "data"}, claim))
		claim.Spec.VolumeName = "v"
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		e.Must(e.Update(e.Context(), claim))
		e.WaitIdle()
		claim.Labels = map[string]string{"a": "b"}
		e.Must(e.Update(e.Context(), claim))
		e.WaitIdle()
		if n := bindings.Load(); n != 1 {
			t.Errorf("the pod was bound %d times", n)
		}
	})
}

// TestPodsShareAClaim: pods that follow each other sooner than the events of their claim find the claim as the scheduler wrote it.
func TestPodsShareAClaim(t *testing.T) {
	for name, volume := range map[string]*corev1.PersistentVolume{"provisioned": nil, "bound": controllerstest.Volume("v", "1Gi", "slow")} {
		t.Run(name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
				e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/slow",
					VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)})
				if volume != nil {
					e.CreateAll(volume)
				}
				pods := []string{"p", "q", "r", "s", "t"}
				for _, pod := range pods {
					e.CreateAll(controllerstest.Pod(pod, "a", usingData))
				}
				e.WaitIdle()
				e.CreateAll(controllerstest.Claim("data", "1Gi", "slow"))
				e.WaitIdle()
				if volume == nil {
					provision(e, nil)
				}
				for _, pod := range pods {
					if e.Pod(pod).Spec.NodeName == "" {
						t.Errorf("%s has no node", pod)
					}
					for _, event := range e.Events("Pod", pod) {
						if strings.Contains(event, "running PreBind plugin") {
							t.Errorf("%s: %s", pod, event)
						}
					}
				}
			})
		})
	}
}
