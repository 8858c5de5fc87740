package endpoints_test

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controlplane/controllerstest"
)

// TestSliceDeletedMeanwhile updates and deletes a slice that does not exist any more.
func TestSliceDeletedMeanwhile(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "s"},
			AddressType: discoveryv1.AddressTypeIPv4}
		e.CreateAll(slice)
		e.Must(e.Delete(e.Context(), slice))
		changes := endpoints.Changes{Update: []*discoveryv1.EndpointSlice{slice}, Delete: []*discoveryv1.EndpointSlice{slice.DeepCopy()}}
		e.Must(changes.Apply(e.Context(), e, "Service default/web"))
	})
}
