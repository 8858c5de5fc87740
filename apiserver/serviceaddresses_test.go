package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// addressed returns a service with that cluster IP.
func addressed(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// wantAddress checks that an IPAddress reserves the address for the service, or that there is none.
func wantAddress(t *testing.T, client kubernetes.Interface, ip, service string) {
	t.Helper()
	a, err := client.NetworkingV1().IPAddresses().Get(t.Context(), ip, metav1.GetOptions{})
	switch {
	case service == "" && apierrors.IsNotFound(err):
	case service == "" || err != nil:
		t.Errorf("%s: %v, %v", ip, a.Spec.ParentRef, err)
	case *a.Spec.ParentRef != networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service},
		a.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io", a.Labels[networkingv1.LabelIPAddressFamily] != "IPv4":
		t.Errorf("%s is of %v, with the labels %v", ip, a.Spec.ParentRef, a.Labels)
	}
}

// TestServiceAddresses: each cluster IP is reserved by an IPAddress as long as a service has it.
func TestServiceAddresses(t *testing.T) {
	ctx := t.Context()
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	services, addresses := client.CoreV1().Services("default"), client.NetworkingV1().IPAddresses()
	wantAddress(t, client, "10.96.0.1", "kubernetes")
	if _, err := services.Create(ctx, addressed("a", "10.96.0.50"), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "")
	if _, err := services.Create(ctx, addressed("a", "10.96.0.50"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "a")
	if _, err := services.Create(ctx, addressed("a", "10.96.0.51"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
	wantAddress(t, client, "10.96.0.51", "")

	// The server repairs changes that a user makes to the address of a service.
	if err := addresses.Delete(ctx, "10.96.0.50", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "a")
	patch := []byte(`{"metadata":{"labels":null}}`)
	if _, err := addresses.Patch(ctx, "10.96.0.50", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "a")

	// The address that a user has reserved is nobody else's.
	reserved := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.60"}, Spec: networkingv1.IPAddressSpec{
		ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "other"}}}
	if _, err := addresses.Create(ctx, reserved, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Create(ctx, addressed("b", "10.96.0.60"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Error(err)
	}
	if _, err := addresses.Get(ctx, "10.96.0.60", metav1.GetOptions{}); err != nil {
		t.Errorf("the reservation is gone after a service was refused: %v", err)
	}

	// Releases, by an update and by a deletion.
	patch = []byte(`{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`)
	if _, err := services.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "")
	made, err := services.Create(ctx, addressed("c", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, made.Spec.ClusterIP, "c")
	if err := services.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, made.Spec.ClusterIP, "")
}

// TestServiceCIDRs: services get addresses of further networks.
func TestServiceCIDRs(t *testing.T) {
	ctx := t.Context()
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	services := client.CoreV1().Services("default")
	for _, ip := range []string{"10.200.0.7", "10.96.0.0", "10.111.255.255"} {
		if _, err := services.Create(ctx, addressed("a", ip), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", ip, err)
		}
	}
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/24"}}}
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(ctx, more, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Create(ctx, addressed("a", "10.200.0.7"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	wantAddress(t, client, "10.200.0.7", "a")
	if _, err := services.Create(ctx, addressed("b", "10.200.0.255"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Error(err)
	}
}

// TestServiceAddressesAfterRestart checks that a new server reserves the addresses of all services, and releases
// addresses without a service.
func TestServiceAddressesAfterRestart(t *testing.T) {
	ctx := t.Context()
	store := memory.New(memory.Options{})
	defer store.Close()
	options := controlplane.Options{Storage: storagetest.Kept{Store: store}, WithoutControllers: true}
	first := controlplanetest.Start(t, options)
	client := controlplanetest.ClientFor(t, first.Config())
	if _, err := client.CoreV1().Services("default").Create(ctx, addressed("a", "10.96.0.50"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leaked := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.60", Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "gone"}}}
	if _, err := client.NetworkingV1().IPAddresses().Create(ctx, leaked, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	deleted := false
	page, err := store.Range(ctx, storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range page.Records {
		if strings.HasSuffix(record.Key, "/10.96.0.50") {
			_, err = store.Delete(ctx, record.Key, storage.Any)
			deleted = err == nil
		}
	}
	if !deleted {
		t.Fatalf("the address is not in the storage: %v", err)
	}
	client = controlplanetest.ClientFor(t, controlplanetest.Start(t, options).Config())
	if _, err := client.CoreV1().Services("default").Create(ctx, addressed("b", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantAddress(t, client, "10.96.0.50", "a")
	wantAddress(t, client, "10.96.0.60", "")
}

// failingServices is a storage that fails to update services while fails is set.
type failingServices struct {
	storage.Store
	fails *atomic.Bool
}

func (s failingServices) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if s.fails.Load() && strings.Contains(w.Key, "/services/") {
		return nil, errors.New("input/output error")
	}
	return s.Store.Put(ctx, w)
}

// TestFailedUpdateReleasesNodePort updates a service to have a node port, which is not stored.
func TestFailedUpdateReleasesNodePort(t *testing.T) {
	s := failingServices{memory.New(memory.Options{}), &atomic.Bool{}}
	send := controlplanetest.Sender(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Storage: s}).Config())
	const services = "/api/v1/namespaces/default/services"
	service := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30007}]}}`
	}
	if code, body := send(http.MethodPost, services, "application/json", `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	for _, r := range [][3]string{
		{http.MethodPut, "application/json", service("a")},
		{http.MethodPatch, "application/merge-patch+json", service("a")},
		{http.MethodPatch, "application/strategic-merge-patch+json", service("a")},
	} {
		s.fails.Store(true)
		if code, body := send(r[0], services+"/a", r[1], r[2]); code != http.StatusInternalServerError {
			t.Fatalf("%s %s: %d %s", r[0], r[1], code, body)
		}
		s.fails.Store(false)
		if code, body := send(http.MethodPost, services, "application/json", service("b")); code != http.StatusCreated {
			t.Errorf("after %s %s, the port is not free: %d %s", r[0], r[1], code, body)
		}
		send(http.MethodDelete, services+"/b", "", "")
	}
}
