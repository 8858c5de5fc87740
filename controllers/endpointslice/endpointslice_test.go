package endpointslice_test

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestEndpointSlicesOfAService scales the Deployment behind a Service, changes the Service and
// deletes it.
func TestEndpointSlicesOfAService(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		svc := controllerstest.Service()
		e.CreateAll(svc)
		e.WaitIdle()
		e.WantSlices("endpointslice 0/0")
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		e.WantSlices("endpointslice 8080 3/3")
		e.ChangeDeployment(controllerstest.SetReplicas(1))
		e.WantSlices("endpointslice 8080 1/1")

		before := client.MergeFrom(svc.DeepCopy())
		svc.Spec.Ports[0].TargetPort = intstr.FromInt32(9090)
		e.Must(e.Patch(e.Context(), svc, before))
		e.WaitIdle()
		e.WantSlices("endpointslice 9090 1/1")

		e.Must(e.DeleteAllOf(e.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace(controllerstest.Web.Namespace)))
		e.WaitIdle()
		e.WantSlices("endpointslice 9090 1/1")

		e.Must(e.Delete(e.Context(), svc))
		e.WaitIdle()
		e.WantSlices()
	})
}
