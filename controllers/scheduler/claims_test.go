package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/controllerstest"
	"flyball.dev/ctrl/client"
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
