package ephemeralvolume_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestEphemeralVolumes: the claim of an ephemeral volume is created, owned by its pod, which waits for
// it, and for the end of a claim of that name that is another's.
func TestEphemeralVolumes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		const spec = `{containers: [{name: c, image: c}], volumes: [{name: data, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}, annotations: {c: d}},
			spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}`
		e.CreatePod("p", spec)
		e.WaitIdle()
		claim := &corev1.PersistentVolumeClaim{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "p-data"}, claim))
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !metav1.IsControlledBy(claim, e.Pod("p")) || claim.Labels["a"] != "b" ||
			claim.Annotations["c"] != "d" || size.String() != "1Gi" || claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("the claim is %+v", claim)
		}
		e.WantStates("p", "Running, Running")
		e.Must(e.Delete(e.Context(), e.Pod("p")))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("the claim of a deleted pod: %v", err)
		}

		foreign := controllerstest.Claim("q-data", "1Gi", "none")
		foreign.Namespace = "default"
		e.CreateAll(foreign)
		e.CreatePod("q", spec)
		e.WaitIdle()
		const conflict = "PVC default/q-data was not created for pod default/q (pod is not owner)"
		if c := podstate.Condition(e.Pod("q"), corev1.PodScheduled); c == nil || !strings.Contains(c.Message, conflict) {
			t.Errorf("with a claim of another, the condition is %+v", c)
		}
		e.WantEvent("q", "Warning FailedBinding", "ephemeral volume data: "+conflict)
		e.Must(e.Delete(e.Context(), foreign))
		e.WaitIdle()
		e.WantStates("q", "Running, Running")
	})
}
