//lint:file-ignore SA1019 The controller reads the deprecated kind Endpoints.
package endpointslicemirroring

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func addresses(ips ...string) (list []corev1.EndpointAddress) {
	for _, ip := range ips {
		list = append(list, corev1.EndpointAddress{IP: ip})
	}
	return list
}

func TestMirror(t *testing.T) {
	port := []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}
	subsets := []corev1.EndpointSubset{
		{Addresses: addresses("10.0.0.1", "fd00::1"), NotReadyAddresses: addresses("10.0.0.2"), Ports: port},
		{Addresses: addresses("10.0.0.3")},
	}
	var many []corev1.EndpointAddress
	for n := range limit {
		many = append(many, corev1.EndpointAddress{IP: fmt.Sprintf("10.2.%d.%d", n/250, n%250)})
	}
	tooMany := []corev1.EndpointSubset{{Addresses: many, NotReadyAddresses: addresses("10.0.0.2"), Ports: port}}
	mirrored := []string{"IPv4 1 port, 1/2", "IPv4 0 port, 1/1", "IPv6 1 port, 1/1"}
	for _, tc := range []struct {
		name    string
		service *corev1.Service
		subsets []corev1.EndpointSubset
		change  func(*corev1.Endpoints)
		want    []string
	}{
		{"mirrored", &corev1.Service{}, subsets, nil, mirrored},
		{"too many addresses", &corev1.Service{}, tooMany, nil, []string{"IPv4 1 port, 1000/1000"}},
		{"no addresses", &corev1.Service{}, nil, nil, nil},
		{"no Service", nil, subsets, nil, nil},
		{"a selector", &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}, subsets, nil, nil},
		{"skipped", &corev1.Service{}, subsets, func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" }, nil},
		{"not skipped", &corev1.Service{}, subsets, func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "false" }, mirrored},
		{"a lock", &corev1.Service{}, subsets, func(e *corev1.Endpoints) { e.Annotations["control-plane.alpha.kubernetes.io/leader"] = "" }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &corev1.Endpoints{Subsets: tc.subsets, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db",
				Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b", corev1.LastAppliedConfigAnnotation: "{}"}}}
			if tc.change != nil {
				tc.change(e)
			}
			c := slicesOf(tc.service, e).Plan(nil)
			var got []string
			for _, s := range c.Create {
				ready := 0
				for _, p := range s.Endpoints {
					if *p.Conditions.Ready {
						ready++
					}
				}
				got = append(got, fmt.Sprintf("%s %d port, %d/%d", s.AddressType, len(s.Ports), ready, len(s.Endpoints)))
				if s.Labels["team"] != "a" || s.Labels[discoveryv1.LabelServiceName] != "db" || s.OwnerReferences[0].Kind != "Endpoints" ||
					!cmp.Equal(s.Annotations, map[string]string{"note": "b"}) {
					t.Errorf("metadata %+v", s.ObjectMeta)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("slices (-want +got):\n%s", d)
			}
			if again := slicesOf(tc.service, e).Plan(c.Create); len(again.Create)+len(again.Update)+len(again.Delete) > 0 {
				t.Errorf("a second plan changes %+v", again)
			}
			if gone := slicesOf(tc.service, nil).Plan(c.Create); len(gone.Delete) != len(c.Create) {
				t.Errorf("of deleted Endpoints %d slices are deleted", len(gone.Delete))
			}
		})
	}
}
