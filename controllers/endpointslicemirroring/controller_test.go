//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package endpointslicemirroring_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestMirroredEndpoints changes the Endpoints of a Service without a selector.
func TestMirroredEndpoints(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		svc := controllerstest.Service()
		svc.Spec.Selector = nil
		object := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: controllerstest.Web.Name},
			Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.8"}},
				Ports: []corev1.EndpointPort{{Port: 5432}},
			}},
		}
		e.CreateAll(object)
		e.WaitIdle()
		e.WantSlices() // there is no Service
		e.CreateAll(svc)
		e.WaitIdle()
		e.WantSlices("endpointslicemirroring 5432 1/2")
		object.Subsets[0].Addresses = append(object.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.9"})
		e.Must(e.Update(e.Context(), object))
		e.WaitIdle()
		e.WantSlices("endpointslicemirroring 5432 2/3")

		before := client.MergeFrom(svc.DeepCopy())
		svc.Spec.Selector = map[string]string{"app": "web"}
		e.Must(e.Patch(e.Context(), svc, before))
		e.WaitIdle()
		e.WantSlices("endpointslice 0/0")
	})
}
