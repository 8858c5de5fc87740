//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
)

func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// slices returns, for each EndpointSlice of the Service, its ports and the numbers of endpoints that
// are ready and of all, sorted.
func (e env) slices() []string {
	e.Helper()
	list := &discoveryv1.EndpointSliceList{}
	e.must(e.List(e.Context(), list, client.InNamespace(web.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: web.Name}))
	var described []string
	for _, s := range list.Items {
		text, _, _ := strings.Cut(s.Labels[discoveryv1.LabelManagedBy], "-")
		for _, p := range s.Ports {
			text += fmt.Sprint(" ", *p.Port)
		}
		ready := 0
		for _, p := range s.Endpoints {
			if *p.Conditions.Ready {
				ready++
			}
		}
		described = append(described, fmt.Sprintf("%s %d/%d", text, ready, len(s.Endpoints)))
	}
	slices.Sort(described)
	return described
}

func (e env) wantSlices(described ...string) {
	e.Helper()
	if got := e.slices(); !slices.Equal(got, described) {
		e.Errorf("the slices are %q, want %q", got, described)
	}
}

// TestEndpointSlicesOfAService scales the Deployment behind a Service, changes the Service and
// deletes it.
func TestEndpointSlicesOfAService(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		svc := webService()
		e.create(svc)
		e.waitIdle()
		e.wantSlices("endpointslice 0/0")
		e.create(deployment(3, "a"))
		e.waitIdle()
		e.wantSlices("endpointslice 8080 3/3")
		e.change(setReplicas(1))
		e.wantSlices("endpointslice 8080 1/1")

		before := client.MergeFrom(svc.DeepCopy())
		svc.Spec.Ports[0].TargetPort = intstr.FromInt32(9090)
		e.must(e.Patch(e.Context(), svc, before))
		e.waitIdle()
		e.wantSlices("endpointslice 9090 1/1")

		e.must(e.DeleteAllOf(e.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace(web.Namespace)))
		e.waitIdle()
		e.wantSlices("endpointslice 9090 1/1")

		e.must(e.Delete(e.Context(), svc))
		e.waitIdle()
		e.wantSlices()
	})
}

// TestEndpointsOfAService is TestEndpointSlicesOfAService for Endpoints.
func TestEndpointsOfAService(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		want := func(ready ...int) {
			t.Helper()
			object := &corev1.Endpoints{}
			e.must(e.Get(e.Context(), web, object))
			var got []int
			for _, s := range object.Subsets {
				got = append(got, int(s.Ports[0].Port), len(s.Addresses), len(s.NotReadyAddresses))
			}
			if !slices.Equal(got, ready) {
				t.Errorf("the endpoints are %v, want %v", got, ready)
			}
		}
		svc := webService()
		e.create(svc)
		e.waitIdle()
		want()
		e.create(deployment(3, "a"))
		e.waitIdle()
		want(8080, 3, 0)
		e.change(setReplicas(1))
		want(8080, 1, 0)
		e.must(e.Delete(e.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}))
		e.waitIdle()
		want(8080, 1, 0)
		e.must(e.Delete(e.Context(), svc))
		e.waitIdle()
		if err := e.Get(e.Context(), web, &corev1.Endpoints{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion of the Service: %v", err)
		}
	})
}

// TestMirroredEndpoints changes the Endpoints of a Service without a selector.
func TestMirroredEndpoints(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		svc := webService()
		svc.Spec.Selector = nil
		object := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
			Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.8"}},
				Ports: []corev1.EndpointPort{{Port: 5432}},
			}},
		}
		e.create(object)
		e.waitIdle()
		e.wantSlices() // there is no Service
		e.create(svc)
		e.waitIdle()
		e.wantSlices("endpointslicemirroring 5432 1/2")
		object.Subsets[0].Addresses = append(object.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.9"})
		e.must(e.Update(e.Context(), object))
		e.waitIdle()
		e.wantSlices("endpointslicemirroring 5432 2/3")

		before := client.MergeFrom(svc.DeepCopy())
		svc.Spec.Selector = map[string]string{"app": "web"}
		e.must(e.Patch(e.Context(), svc, before))
		e.waitIdle()
		e.wantSlices("endpointslice 0/0")
	})
}
