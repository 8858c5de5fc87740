//lint:file-ignore SA1019 The controller reads the deprecated kind Endpoints.
package endpointslicemirroring

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

func addresses(ips ...string) (list []corev1.EndpointAddress) {
	for _, ip := range ips {
		list = append(list, corev1.EndpointAddress{IP: ip})
	}
	return list
}

func endpointsOf(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{Subsets: subsets, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "e",
		Labels:      map[string]string{"team": "a", corev1.IsHeadlessService: ""},
		Annotations: map[string]string{"note": "b", corev1.LastAppliedConfigAnnotation: "{}", corev1.EndpointsLastChangeTriggerTime: "t"}}}
}

// describe returns slices as "IPv4 http:8080 10.0.0.1+ 10.0.0.2-", where "+" means ready.
func describe(list []*discoveryv1.EndpointSlice) (texts []string) {
	for _, s := range list {
		text := string(s.AddressType)
		for _, p := range s.Ports {
			text += fmt.Sprintf(" %s:%d", *p.Name, *p.Port)
		}
		for _, e := range s.Endpoints {
			text += " " + e.Addresses[0] + map[bool]string{true: "+", false: "-"}[*e.Conditions.Ready]
		}
		texts = append(texts, text)
	}
	return texts
}

func TestMirror(t *testing.T) {
	http := []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	both := append(http[:1:1], corev1.EndpointPort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP})
	var many []corev1.EndpointAddress
	for n := range limit {
		many = append(many, corev1.EndpointAddress{IP: fmt.Sprintf("10.2.%d.%d", n/250, n%250)})
	}
	for _, tc := range []struct {
		name    string
		subsets []corev1.EndpointSubset
		want    []string
		events  []string
	}{
		{"no addresses", []corev1.EndpointSubset{{Ports: http}}, nil, nil},
		{"two families", []corev1.EndpointSubset{{Addresses: addresses("10.0.0.1", "fd00::1"), NotReadyAddresses: addresses("10.0.0.2"), Ports: http}},
			[]string{"IPv4 http:80 10.0.0.1+ 10.0.0.2-", "IPv6 http:80 fd00::1+"}, nil},
		{"a port in two subsets", []corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), Ports: http}, {NotReadyAddresses: addresses("10.0.0.1", "10.0.0.2"), Ports: http}},
			[]string{"IPv4 http:80 10.0.0.1- 10.0.0.2-"}, nil},
		{"other addresses for a second port", []corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), Ports: both}, {Addresses: addresses("10.0.0.2"), Ports: http}},
			[]string{"IPv4 https:443 10.0.0.1+", "IPv4 http:80 10.0.0.1+ 10.0.0.2+"}, nil},
		{"two texts of an IP", []corev1.EndpointSubset{{Addresses: addresses("010.000.000.001"), NotReadyAddresses: addresses("10.0.0.1", "::ffff:10.0.0.2")}},
			[]string{"IPv4 10.0.0.1- 10.0.0.2-"}, nil},
		{"no IP", []corev1.EndpointSubset{{Addresses: addresses("host", "10.0.0.1")}, {NotReadyAddresses: addresses(""), Ports: http}},
			[]string{"IPv4 10.0.0.1+"}, []string{"Warning InvalidIPAddress Skipped 2 invalid IP addresses when mirroring to EndpointSlices"}},
		{"too many", []corev1.EndpointSubset{{Addresses: many[1:], NotReadyAddresses: append(addresses("fd00::1", "fd00::2"), many[0])}}, nil,
			[]string{"Warning TooManyAddressesToMirror A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, events := mirrorOf(endpointsOf(tc.subsets...)), record.NewFakeRecorder(9)
			m.report(events)
			close(events.Events)
			var reported []string
			for e := range events.Events {
				reported = append(reported, e)
			}
			c := m.plan(nil)
			if tc.name == "too many" {
				if len(c.Create) != 1 || len(c.Create[0].Endpoints) != limit || len(describe(c.Create)[0]) < limit || strings.Count(describe(c.Create)[0], "+") != limit-1 {
					t.Errorf("there are %d slices", len(c.Create))
				}
			} else if d := cmp.Diff(tc.want, describe(c.Create)); d != "" {
				t.Errorf("slices (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.events, reported); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if again := m.plan(c.Create); len(again.Create)+len(again.Update)+len(again.Delete) > 0 {
				t.Errorf("a second plan changes %+v", again)
			}
		})
	}
}

func TestMetadataOfAMirror(t *testing.T) {
	e := endpointsOf(corev1.EndpointSubset{Addresses: addresses("10.0.0.1")})
	want := metav1.ObjectMeta{Namespace: "default", GenerateName: "db-",
		Labels:          map[string]string{"team": "a", corev1.IsHeadlessService: "", discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: managedBy},
		Annotations:     map[string]string{"note": "b"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
	}
	if d := cmp.Diff(want, mirrorOf(e).plan(nil).Create[0].ObjectMeta); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
}

// TestChangesOfAMirror changes Endpoints that are mirrored.
func TestChangesOfAMirror(t *testing.T) {
	subset := corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}}
	for _, tc := range []struct {
		name                    string
		change                  func(*corev1.Endpoints)
		created, updated, erase int
	}{
		{"nothing", func(*corev1.Endpoints) {}, 0, 0, 0},
		{"a label", func(e *corev1.Endpoints) { e.Labels["team"] = "b" }, 0, 1, 0},
		{"an annotation", func(e *corev1.Endpoints) { e.Annotations["note"] = "c" }, 0, 1, 0},
		{"the time of the last change", func(e *corev1.Endpoints) { e.Annotations[corev1.EndpointsLastChangeTriggerTime] = "u" }, 0, 0, 0},
		{"an address", func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("10.0.0.2") }, 0, 1, 0},
		{"the port", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 81 }, 0, 1, 0},
		{"the family", func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("fd00::1") }, 1, 0, 1},
		{"the Endpoints are others", func(e *corev1.Endpoints) { e.UID = "f" }, 0, 1, 0},
		{"another family while the Endpoints are deleted", func(e *corev1.Endpoints) {
			e.DeletionTimestamp = &metav1.Time{}
			e.Subsets[0].Addresses = addresses("10.0.0.2", "fd00::1")
		}, 0, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := endpointsOf(*subset.DeepCopy())
			existing := mirrorOf(e).plan(nil).Create
			existing[0].Name = "db-x"
			e = e.DeepCopy()
			tc.change(e)
			c := mirrorOf(e).plan(existing)
			if len(c.Create) != tc.created || len(c.Update) != tc.updated || len(c.Delete) != tc.erase {
				t.Errorf("created %v, updated %v, deleted %v", describe(c.Create), describe(c.Update), describe(c.Delete))
			}
		})
	}
}

func TestSkipped(t *testing.T) {
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"mirrored":    {nil, nil, false},
		"skipped":     {map[string]string{discoveryv1.LabelSkipMirror: "true"}, nil, true},
		"not skipped": {map[string]string{discoveryv1.LabelSkipMirror: "false"}, nil, false},
		"a lock":      {nil, map[string]string{"control-plane.alpha.kubernetes.io/leader": ""}, true},
	} {
		if got := skipped(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
