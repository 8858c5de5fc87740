//lint:file-ignore SA1019 Kubernetes keeps the addresses of its servers in Endpoints.

package background

import (
	"context"
	"net/netip"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/storage"
)

const (
	// masterLeasesPath is the path of the leases of API servers, as in kube-apiserver.
	masterLeasesPath = "/registry/masterleases/"
	// masterLeaseDuration is how long a server counts as running after its last renewal, as in kube-apiserver.
	masterLeaseDuration = 15 * time.Second
	// removeTimeout bounds the removal of the lease of a server that stops.
	removeTimeout = 2 * time.Second
)

// masterLeases are the addresses of the API servers that share a storage. Each server renews a record with its address,
// which expires after the server has ended.
//
//upstream:pkg/controlplane/reconcilers.storageLeases
type masterLeases struct {
	storage storage.Store
	address netip.Addr
}

// renew renews the lease of this server, and returns the addresses of all servers, in order. It leaves out the addresses
// of the other IP family.
//
//upstream:pkg/controlplane/reconcilers.storageLeases.UpdateLease
//upstream:pkg/controlplane/reconcilers.storageLeases.ListLeases
func (m *masterLeases) renew(ctx context.Context) ([]netip.Addr, error) {
	value, err := runtime.Encode(builtin.StorageCodec(corev1.Resource("endpoints")), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: m.address.String()},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: m.address.String()}}}},
	})
	if err != nil {
		return nil, err
	}
	_, err = m.storage.Put(ctx, storage.Write{Key: m.key(), Value: value, If: storage.Any, Expires: time.Now().Add(masterLeaseDuration)})
	if err != nil {
		return nil, err
	}
	page, err := m.storage.Range(ctx, storage.Query{Path: masterLeasesPath})
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, r := range page.Records {
		if a, err := netip.ParseAddr(path.Base(r.Key)); err == nil && a.Is4() == m.address.Is4() {
			addresses = append(addresses, a)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses, nil
}

// remove removes the lease of this server, so that the other servers soon remove its address from the endpoints.
//
//upstream:pkg/controlplane/reconcilers.storageLeases.RemoveLease
func (m *masterLeases) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if _, err := m.storage.Delete(ctx, m.key(), storage.Any); err != nil {
		klog.V(1).InfoS("The lease of this API server ends by itself", "error", err)
	}
}

func (m *masterLeases) key() string { return masterLeasesPath + m.address.String() }
