package endpointslicemirroring

//lint:file-ignore SA1019 The controller reads the deprecated kind Endpoints.

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	utilnet "k8s.io/utils/net"

	"flyball.dev/controllers/internal/endpoints"
)

// limit is the highest number of addresses that are mirrored of a subset, and of endpoints in a slice.
//
//upstream:pkg/controller/endpointslicemirroring/config/v1alpha1.RecommendedDefaultEndpointSliceMirroringControllerConfiguration
const limit = 1000

// mirror is the mirror of Endpoints as it should be: a slice for each group.
type mirror struct {
	of      *corev1.Endpoints
	groups  endpoints.Groups
	invalid int // addresses that are no IP
	missing int // addresses that are not mirrored
}

// mirrorOf returns the mirror of Endpoints.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcileByPortMapping
func mirrorOf(e *corev1.Endpoints) *mirror {
	m := &mirror{of: e}
	for _, subset := range endpoints.Repack(e.Subsets) {
		m.add(&subset)
	}
	for _, g := range m.groups {
		g.Endpoints = unique(g.Endpoints)
		g.Endpoints = g.Endpoints[:min(limit, len(g.Endpoints))]
	}
	return m
}

// add adds the addresses of a subset, up to the limit. The ones that are ready come first.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
//upstream:pkg/controller/endpointslicemirroring.desiredCalc.addAddress
func (m *mirror) add(subset *corev1.EndpointSubset) {
	byType, room := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}, limit
	take := func(addresses []corev1.EndpointAddress, ready bool) {
		for i := range addresses {
			if room == 0 {
				return
			}
			t, endpoint := endpointOf(&addresses[i], ready)
			if endpoint == nil {
				m.invalid++
				continue
			}
			byType[t] = append(byType[t], *endpoint)
			room--
		}
	}
	take(subset.Addresses, true)
	take(subset.NotReadyAddresses, false)
	m.missing += len(subset.Addresses) + len(subset.NotReadyAddresses) - (limit - room)
	for _, t := range slices.Sorted(maps.Keys(byType)) {
		m.groups.Add(t, portsOf(subset.Ports), byType[t]...)
	}
}

// endpointOf returns the endpoint for an address, or nil if the address is no IP.
//
//upstream:pkg/controller/endpointslicemirroring.addressToEndpoint
func endpointOf(a *corev1.EndpointAddress, ready bool) (discoveryv1.AddressType, *discoveryv1.Endpoint) {
	ip := utilnet.ParseIPSloppy(a.IP)
	if ip == nil {
		return "", nil
	}
	e := &discoveryv1.Endpoint{Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	if ip.To4() == nil {
		return discoveryv1.AddressTypeIPv6, e
	}
	return discoveryv1.AddressTypeIPv4, e
}

// portsOf returns the ports of a slice.
//
//upstream:pkg/controller/endpointslicemirroring.epPortsToEpsPorts
func portsOf(list []corev1.EndpointPort) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for i := range list {
		p := &list[i]
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return ports
}

// unique returns the endpoints without repetitions. The last one of several counts.
//
//upstream:k8s.io/endpointslice/util.EndpointSet.Insert
func unique(list []discoveryv1.Endpoint) (unique []discoveryv1.Endpoint) {
	place := map[string]int{}
	for _, e := range list {
		id := endpoints.Identity(&e)
		if i, found := place[id]; found {
			unique[i] = e
			continue
		}
		place[id] = len(unique)
		unique = append(unique, e)
	}
	return unique
}

// report records events for addresses that are not mirrored.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
func (m *mirror) report(events record.EventRecorder) {
	if m.invalid > 0 {
		events.Eventf(m.of, corev1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", m.invalid)
	}
	if m.missing > m.invalid {
		events.Eventf(m.of, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", limit, m.missing)
	}
}

// plan returns the changes from the existing slices to the mirror. Of several slices of a group, one stays. While the Endpoints
// are being deleted, none is created.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcile
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcileByPortMapping
//upstream:pkg/controller/endpointslicemirroring.reconciler.finalize
func (m *mirror) plan(existing []*discoveryv1.EndpointSlice) (c endpoints.Changes) {
	byGroup := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		k := endpoints.GroupKey(slice.AddressType, slice.Ports)
		byGroup[k] = append(byGroup[k], slice)
	}
	for _, g := range m.groups {
		k := endpoints.GroupKey(g.Type, g.Ports)
		of, wanted := byGroup[k], m.newSlice(g)
		delete(byGroup, k)
		if len(of) == 0 {
			c.Create = append(c.Create, wanted)
			continue
		}
		if !m.shows(of[0], g) {
			wanted.Name, wanted.GenerateName = of[0].Name, ""
			c.Update = append(c.Update, wanted)
		}
		c.Delete = append(c.Delete, of[1:]...)
	}
	for _, k := range slices.Sorted(maps.Keys(byGroup)) {
		c.Delete = append(c.Delete, byGroup[k]...)
	}
	if c.Reuse(); m.of.DeletionTimestamp != nil {
		c.Create = nil
	}
	return c
}

// newSlice returns the slice of a group.
//
//upstream:pkg/controller/endpointslicemirroring.newEndpointSlice
func (m *mirror) newSlice(g *endpoints.SliceGroup) *discoveryv1.EndpointSlice {
	owner := metav1.NewControllerRef(m.of, corev1.SchemeGroupVersion.WithKind("Endpoints"))
	slice := &discoveryv1.EndpointSlice{ObjectMeta: endpoints.SlicesMeta(m.of, owner, managedBy, ""), AddressType: g.Type, Ports: g.Ports, Endpoints: g.Endpoints}
	slice.Annotations = m.annotations()
	return slice
}

// annotations returns the annotations of the slices.
//
//upstream:pkg/controller/endpointslicemirroring.newEndpointSlice
func (m *mirror) annotations() map[string]string {
	a := maps.Clone(m.of.Annotations)
	delete(a, corev1.EndpointsLastChangeTriggerTime)
	delete(a, corev1.LastAppliedConfigAnnotation)
	return a
}

// shows reports whether a slice has the endpoints of a group, in any order, and the labels and annotations of the mirror.
//
//upstream:pkg/controller/endpointslicemirroring.reconciler.reconcileByPortMapping
//upstream:pkg/controller/endpointslicemirroring.totalChanges
func (m *mirror) shows(slice *discoveryv1.EndpointSlice, g *endpoints.SliceGroup) bool {
	labels := maps.Clone(slice.Labels)
	delete(labels, discoveryv1.LabelManagedBy)
	delete(labels, discoveryv1.LabelServiceName)
	if !equality.Semantic.DeepEqual(labels, m.of.Labels) || !equality.Semantic.DeepEqual(slice.Annotations, m.annotations()) ||
		m.ofEarlier(slice) || len(slice.Endpoints) != len(g.Endpoints) {
		return false
	}
	wanted := map[string]*discoveryv1.Endpoint{}
	for i := range g.Endpoints {
		wanted[endpoints.Identity(&g.Endpoints[i])] = &g.Endpoints[i]
	}
	return !slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		w := wanted[endpoints.Identity(&e)]
		return w == nil || !same(w, &e)
	})
}

// same compares endpoints with one identity. The version of the target, the hints and the addresses' order do not count.
//
//upstream:k8s.io/endpointslice/util.EndpointsEqualBeyondHash
func same(a, b *discoveryv1.Endpoint) bool {
	comparable := func(e *discoveryv1.Endpoint) discoveryv1.Endpoint {
		c := discoveryv1.Endpoint{NodeName: e.NodeName, Zone: e.Zone, Conditions: e.Conditions, TargetRef: e.TargetRef.DeepCopy()}
		if c.TargetRef != nil {
			c.TargetRef.ResourceVersion = ""
		}
		return c
	}
	return equality.Semantic.DeepEqual(comparable(a), comparable(b))
}

// ofEarlier reports whether the owner of a slice is earlier Endpoints with the same name.
//
//upstream:pkg/controller/endpointslicemirroring.needRebuildExistingSlices
func (m *mirror) ofEarlier(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Endpoints" && o.Name == m.of.Name && o.UID != m.of.UID
	})
}
