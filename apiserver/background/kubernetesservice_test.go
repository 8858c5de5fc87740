package background_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// kubernetesService returns the Service of the API server, and the address of its Endpoints and
// EndpointSlice.
func kubernetesService(t *testing.T, client kubernetes.Interface) (*corev1.Service, netip.AddrPort) {
	t.Helper()
	ctx := t.Context()
	service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		t.Fatal(err)
	}
	if len(endpoints.Subsets) != 1 || len(slices.Items) != 1 {
		t.Fatalf("endpoints %+v, slices %+v", endpoints.Subsets, slices.Items)
	}
	subset, slice := endpoints.Subsets[0], slices.Items[0]
	address := netip.AddrPortFrom(netip.MustParseAddr(subset.Addresses[0].IP), uint16(subset.Ports[0].Port))
	if other := netip.AddrPortFrom(netip.MustParseAddr(slice.Endpoints[0].Addresses[0]), uint16(*slice.Ports[0].Port)); other != address {
		t.Errorf("the address in the endpoints is %s, in the slice %s", address, other)
	}
	family := discoveryv1.AddressTypeIPv4
	if address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	if subset.Ports[0].Name != "https" || *slice.Ports[0].Name != "https" || !*slice.Endpoints[0].Conditions.Ready || slice.AddressType != family {
		t.Errorf("endpoints %+v, slice %+v", subset, slice)
	}
	return service, address
}

func TestKubernetesService(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	client := controlplanetest.ClientFor(t, plane.Config())
	service, address := kubernetesService(t, client)
	port := netip.MustParseAddrPort(plane.URL()[len("https://"):]).Port()
	if s := service.Spec; s.ClusterIP != "10.96.0.1" || s.Type != corev1.ServiceTypeClusterIP || len(s.Ports) != 1 || s.Ports[0].Name != "https" ||
		s.Ports[0].Port != 443 || s.Ports[0].TargetPort.IntValue() != int(port) || s.Selector != nil {
		t.Errorf("spec %+v", s)
	}
	if l := service.Labels; l["component"] != "apiserver" || l["provider"] != "kubernetes" {
		t.Errorf("labels %v", l)
	}
	if len(service.ManagedFields) != 1 || service.ManagedFields[0].Manager != "kube-apiserver" {
		t.Errorf("managed fields %+v", service.ManagedFields)
	}
	// No endpoint may be on loopback.
	if want := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port); address != want {
		t.Errorf("the endpoint is %s, want %s", address, want)
	}
}

func TestServiceOnAllAddresses(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "0.0.0.0:0", WithoutControllers: true})
	_, address := kubernetesService(t, controlplanetest.ClientFor(t, plane.Config()))
	if !address.Addr().IsGlobalUnicast() || address.Port() == 0 {
		t.Errorf("the endpoint is %s", address)
	}
}

func TestServiceIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{}).Config())
		ctx := t.Context()
		kubernetesService(t, client)
		if err := client.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Endpoints("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		slice, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		slice.Endpoints[0].Addresses[0] = "10.0.0.1"
		if _, err := client.DiscoveryV1().EndpointSlices("default").Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		<-time.After(11 * time.Second)
		service, address := kubernetesService(t, client)
		if service.Spec.ClusterIP != "10.96.0.1" || address.Addr().String() != "192.0.2.1" {
			t.Errorf("%s, %s", service.Spec.ClusterIP, address)
		}

		// A slice of another address type; the type is immutable.
		if err := client.DiscoveryV1().EndpointSlices("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		other := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, AddressType: discoveryv1.AddressTypeIPv6}
		if _, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(11 * time.Second)
		kubernetesService(t, client)
	})
}

func TestSystemNamespacesAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{}).Config())
		ctx := t.Context()
		if err := client.CoreV1().Namespaces().Delete(ctx, "kube-node-lease", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-node-lease", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("the namespace is still there: %v", err)
		}
		<-time.After(time.Minute)
		if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-node-lease", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		// The lease of the node is renewed again.
		if _, err := client.CoordinationV1().Leases("kube-node-lease").Get(ctx, "flyball", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func TestServiceAfterRestart(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	first, err := controlplane.Start(t.Context(), controlplane.Options{Storage: storagetest.Kept{Store: store}, WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := kubernetesService(t, controlplanetest.ClientFor(t, first.Config()))
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := controlplanetest.Start(t, controlplane.Options{Storage: storagetest.Kept{Store: store}, Listen: "127.0.0.1:0", WithoutControllers: true})
	after, address := kubernetesService(t, controlplanetest.ClientFor(t, second.Config()))
	if port := netip.MustParseAddrPort(second.URL()[len("https://"):]).Port(); address.Port() != port {
		t.Errorf("the endpoint is %s, the server on port %d", address, port)
	}
	if before.UID != after.UID {
		t.Error("the Service was created again")
	}
}
