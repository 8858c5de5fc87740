//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package endpoints_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// TestEndpointsOfAService is TestEndpointSlicesOfAService for Endpoints.
func TestEndpointsOfAService(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		want := func(ready ...int) {
			t.Helper()
			object := &corev1.Endpoints{}
			e.Must(e.Get(e.Context(), controllerstest.Web, object))
			var got []int
			for _, s := range object.Subsets {
				got = append(got, int(s.Ports[0].Port), len(s.Addresses), len(s.NotReadyAddresses))
			}
			if !slices.Equal(got, ready) {
				t.Errorf("the endpoints are %v, want %v", got, ready)
			}
		}
		svc := controllerstest.Service()
		e.CreateAll(svc)
		e.WaitIdle()
		want()
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		want(8080, 3, 0)
		e.ChangeDeployment(controllerstest.SetReplicas(1))
		want(8080, 1, 0)
		e.Must(e.Delete(e.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: controllerstest.Web.Name}}))
		e.WaitIdle()
		want(8080, 1, 0)
		e.Must(e.Delete(e.Context(), svc))
		e.WaitIdle()
		if err := e.Get(e.Context(), controllerstest.Web, &corev1.Endpoints{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion of the Service: %v", err)
		}
	})
}

// TestEndpointsLeftAtStart starts the controllers with Endpoints without a Service, which are deleted, unless they are a lock. Ones
// that are created later wait for their Service.
func TestEndpointsLeftAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		o := controlplane.Options{Storage: storagetest.Kept{Store: store}}
		named := func(name string) *corev1.Endpoints {
			return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name}}
		}
		controllerstest.WithPlane(t, o, func(e controllerstest.Env) {
			lock := named("lock")
			lock.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
			e.CreateAll(named("left"), lock)
			e.WaitIdle()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(lock), lock))
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(named("left")), named("left")))
		})
		time.Sleep(time.Second) // virtual
		controllerstest.WithPlane(t, o, func(e controllerstest.Env) {
			e.CreateAll(named("early"))
			e.WaitIdle()
			var got []string
			list := &corev1.EndpointsList{}
			e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
			for _, item := range list.Items {
				got = append(got, item.Name)
			}
			if want := []string{"early", "kubernetes", "lock"}; !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
		})
	})
}

// TestEndpointsOfAServiceNotYetInTheCache creates Endpoints by hand, with a Service that the cache does
// not have.
func TestEndpointsOfAServiceNotYetInTheCache(t *testing.T) {
	controllerstest.WithController(t, "endpoints-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.Service); ok {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		svc := controllerstest.Service()
		svc.Spec.Selector = nil
		manual := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: controllerstest.Web.Name},
			Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}}}
		e.CreateAll(manual, svc)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(manual), manual))
		e.Must(e.Delete(e.Context(), svc))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(manual), manual); !apierrors.IsNotFound(err) {
			t.Errorf("the Endpoints of a deleted Service: %v", err)
		}
	})
}
