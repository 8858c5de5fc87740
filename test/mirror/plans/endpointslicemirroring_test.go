package plans

//lint:file-ignore SA1019 The controllers mirror the deprecated kind Endpoints.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	upstream "k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/endpointslicemirroring"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestEndpointSliceMirroring compares the EndpointSlices that mirror Endpoints, while the Endpoints, their Service and the
// slices change and go.
func TestEndpointSliceMirroring(t *testing.T) {
	m := &mirrored{}
	comparison{
		name:   "endpointslicemirroring",
		worlds: 2000,
		atLeast: map[string]int{"create endpointslices.discovery.k8s.io": 30, "update endpointslices.discovery.k8s.io": 20, "delete endpointslices.discovery.k8s.io": 20,
			"InvalidIPAddress": 10, "TooManyAddressesToMirror": 2, "IPv6": 10, "several slices": 10, "not ready": 10, "hostname": 10, "no ports": 5},
		features: mirrorFeatures,
		kinds:    []client.Object{&corev1.Service{}, &corev1.Endpoints{}, &discoveryv1.EndpointSlice{}},
		add:      endpointslicemirroring.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			m := upstream.NewController(ctx, f.Core().V1().Endpoints(), f.Discovery().V1().EndpointSlices(), f.Core().V1().Services(), 1000, c, 0)
			return func(ctx context.Context) { m.Run(ctx, 1) }, nil
		},
		order:    orderMirrors,
		every:    true,
		retries:  150, // with both families, Kubernetes mostly creates a slice with the name of another one that it reuses
		events:   true,
		generate: m.generate,
		later:    m.change,
	}.compare(t)
}

// orderMirrors orders slices. A slice has its generateName until it is updated, which of several slices Kubernetes chooses at random.
func orderMirrors(w *world) {
	for k, o := range w.objects {
		if k.GroupResource == discoveryv1.Resource("endpointslices") {
			o = o.DeepCopyObject().(client.Object)
			o.SetGenerateName("")
			w.objects[k] = o
		}
	}
	orderSlices(w)
}

func mirrorFeatures(w *world) (found []string) {
	for e := range w.events {
		found = append(found, strings.TrimSuffix(strings.Fields(e)[1], ":"))
	}
	list := w.list(discoveryv1.Resource("endpointslices"))
	if len(list) > 1 {
		found = append(found, "several slices")
	}
	for _, o := range list {
		slice := o.(*discoveryv1.EndpointSlice)
		if slice.AddressType == discoveryv1.AddressTypeIPv6 {
			found = append(found, "IPv6")
		}
		if len(slice.Ports) == 0 {
			found = append(found, "no ports")
		}
		for _, e := range slice.Endpoints {
			if !ptr.Deref(e.Conditions.Ready, true) {
				found = append(found, "not ready")
			}
			if e.Hostname != nil {
				found = append(found, "hostname")
			}
		}
	}
	return found
}

// mirrored makes the objects of a world.
type mirrored struct {
	*random.Source
	ns string // and the name of the Service, another one for each world
	// ports, if not nil, are the ports of all subsets, which have addresses of both families. Kubernetes then needs many attempts
	// until it reuses slices, so that there are no reasons for events, which client-go would drop.
	ports []corev1.EndpointPort
	// single is whether there is one slice, since Kubernetes chooses at random which of several it writes first.
	single bool
}

func (m *mirrored) generate(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	*m = mirrored{Source: s, ns: namespace()}
	forbidden := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), m.ns, errors.New("a policy"))
	if s.Chance(50) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	refuse := refusing(s, forbidden, "create endpointslices", "update endpointslices", "delete endpointslices")
	deletion := &corev1.Endpoints{}
	deleted(s, deletion)
	if m.single = refuse != nil || deletion.DeletionTimestamp != nil; !m.single && s.Chance(40) {
		m.ports = m.newPorts()
		for i := range m.ports {
			m.ports[i].AppProtocol = nil
		}
	}
	e := m.newEndpoints()
	e.DeletionTimestamp, e.Finalizers = deletion.DeletionTimestamp, deletion.Finalizers
	objects := append([]client.Object{e}, m.newSlices(e)...)
	if s.Chance(92) {
		objects = append(objects, m.newService())
	}
	object := client.Object(e)
	if s.Chance(5) { // the Endpoints are gone
		objects = objects[1:]
	}
	return objects, object, refuse
}

// most returns a number up to n, or 1.
func (m *mirrored) most(n int) int {
	if m.single {
		n = 1
	}
	return m.IntN(n + 1)
}

func (m *mirrored) newService() *corev1.Service {
	svc := &corev1.Service{ObjectMeta: object(m.Source, m.ns, m.ns), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	if m.Chance(10) {
		svc.Spec.Selector = random.Pick(m.Source, map[string]string{"app": "x"}, map[string]string{})
	}
	return svc
}

func (m *mirrored) newEndpoints() *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: object(m.Source, m.ns, m.ns)}
	e.Labels = random.Pick(m.Source, nil, map[string]string{"l": "1"}, map[string]string{"l": "2", corev1.IsHeadlessService: ""})
	if m.Chance(15) {
		e.Labels = map[string]string{discoveryv1.LabelSkipMirror: random.Pick(m.Source, "true", "false")}
	}
	e.Annotations = random.Pick(m.Source, nil, nil, map[string]string{"note": "1"},
		map[string]string{"note": "2", corev1.EndpointsLastChangeTriggerTime: "2026-01-02T03:04:05Z", corev1.LastAppliedConfigAnnotation: "{}"})
	if m.Chance(4) {
		e.Annotations = map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: "{}"}
	}
	e.Subsets = m.newSubsets()
	return e
}

func (m *mirrored) newPorts() []corev1.EndpointPort {
	ports := []corev1.EndpointPort{}
	for i := range m.IntN(3) {
		p := corev1.EndpointPort{Name: random.Pick(m.Source, "", "a", "b") + strings.Repeat("x", i), Port: random.Pick[int32](m.Source, 80, 8080),
			Protocol: random.Pick(m.Source, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP)}
		if m.Chance(15) {
			p.AppProtocol = ptr.To("kubernetes.io/h2c")
		}
		ports = append(ports, p)
	}
	return ports
}

func (m *mirrored) newSubsets() (subsets []corev1.EndpointSubset) {
	family := m.IntN(2)
	for range m.most(3) {
		subset := corev1.EndpointSubset{Ports: m.newPorts()}
		if m.ports != nil {
			subset.Ports = slices.Clone(m.ports)
		}
		for range m.IntN(5) {
			a := m.newAddress(family)
			if m.Chance(70) {
				subset.Addresses = append(subset.Addresses, a)
			} else {
				subset.NotReadyAddresses = append(subset.NotReadyAddresses, a)
			}
		}
		subsets = append(subsets, subset)
	}
	if len(subsets) == 0 || m.ports != nil || !m.Chance(6) {
		return subsets
	}
	ready := m.IntN(1400) // many of the first subset
	for i := range 900 + m.IntN(1000) {
		a := corev1.EndpointAddress{IP: fmt.Sprintf("10.2.%d.%d", i/250, i%250)}
		if i < ready {
			subsets[0].Addresses = append(subsets[0].Addresses, a)
		} else {
			subsets[0].NotReadyAddresses = append(subsets[0].NotReadyAddresses, a)
		}
	}
	for i := range subsets[0].Ports {
		subsets[0].Ports[i].AppProtocol = nil // equal ones are not equal for Kubernetes, which then leaves out any addresses
	}
	return subsets
}

// newAddress returns an address of a family, or of any.
func (m *mirrored) newAddress(family int) corev1.EndpointAddress {
	if m.ports != nil {
		family = m.IntN(2)
	}
	a := corev1.EndpointAddress{IP: random.Pick(m.Source, "10.0.0.1", "10.0.0.2", "10.0.0.3", "010.000.000.001", "::ffff:10.0.0.2")}
	if family == 1 {
		a.IP = random.Pick(m.Source, "fd00::1", "fd00::2", "fd00::3", "FD00:0::1")
	}
	if m.ports == nil && m.Chance(10) {
		a.IP = random.Pick(m.Source, "", "10.0.0", "host", "fd00::1%1")
	}
	if m.Chance(30) {
		name := random.Pick(m.Source, "p1", "p2")
		a.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: m.ns, Name: name, UID: types.UID(name), ResourceVersion: random.Pick(m.Source, "", "7")}
	}
	if m.Chance(20) {
		a.Hostname = random.Pick(m.Source, "h1", "h2")
	}
	if m.Chance(20) {
		a.NodeName = ptr.To(random.Pick(m.Source, "a", "b"))
	}
	return a
}

// newSlices returns slices as an earlier run, or somebody, has left them. None has a finalizer: after Kubernetes has deleted such a
// slice, it mirrors nothing until the slice is gone.
func (m *mirrored) newSlices(e *corev1.Endpoints) (list []client.Object) {
	for i := range m.most(3) {
		slice := m.newSlice(e, fmt.Sprint(m.ns, "-", i))
		list = append(list, slice)
		if i > 0 || !m.Chance(20) {
			continue
		}
		// Of several slices, Kubernetes keeps any one, so only a single one is special.
		slice.OwnerReferences = nil
		for i := range slice.Endpoints {
			if ref := slice.Endpoints[i].TargetRef; ref != nil {
				ref.ResourceVersion = "8"
			}
		}
		return list
	}
	return list
}

func (m *mirrored) newSlice(e *corev1.Endpoints, name string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: object(m.Source, m.ns, name)}
	slice.AddressType = random.Pick(m.Source, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	slice.Labels = map[string]string{}
	if m.Chance(80) {
		maps.Copy(slice.Labels, e.Labels)
	}
	slice.Labels[discoveryv1.LabelServiceName] = m.ns
	slice.Labels[discoveryv1.LabelManagedBy] = "endpointslicemirroring-controller.k8s.io"
	if m.Chance(8) {
		slice.Labels[discoveryv1.LabelManagedBy] = "me"
	}
	if m.Chance(80) {
		slice.Annotations = maps.Clone(e.Annotations)
		delete(slice.Annotations, corev1.LastAppliedConfigAnnotation)
		delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
	}
	slice.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(e, kindOf(e))}
	if m.Chance(8) {
		slice.OwnerReferences[0].UID = "earlier"
	}
	slice.Ports, slice.Endpoints = []discoveryv1.EndpointPort{}, []discoveryv1.Endpoint{}
	if len(e.Subsets) == 0 {
		return slice
	}
	subset := e.Subsets[0]
	for _, p := range subset.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	seen := map[string]bool{}
	for i, a := range append(slices.Clone(subset.Addresses), subset.NotReadyAddresses...) {
		is6 := strings.HasPrefix(a.IP, "fd00")
		if is6 != (slice.AddressType == discoveryv1.AddressTypeIPv6) || seen[a.IP] || m.Chance(3) {
			continue
		}
		seen[a.IP] = true
		endpoint := discoveryv1.Endpoint{Addresses: []string{a.IP}, NodeName: a.NodeName, TargetRef: a.TargetRef.DeepCopy(),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(i < len(subset.Addresses))}}
		if a.Hostname != "" {
			endpoint.Hostname = &a.Hostname
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// change returns changes of the Endpoints, their Service and their slices.
func (m *mirrored) change(s *random.Source, e client.Object) (changes []change) {
	if m.ports != nil && s.Chance(50) {
		for i := range m.ports {
			m.ports[i].Port++
		}
	}
	for range s.IntN(5) {
		var of func(*world)
		put := func(o client.Object) func(*world) {
			return func(w *world) { w.objects[keyOf(o)] = o.DeepCopyObject().(client.Object) }
		}
		switch s.IntN(6) {
		case 0, 1:
			of = put(m.newEndpoints())
		case 2:
			of = put(m.newService())
		case 3:
			again := m.newEndpoints()
			again.UID = types.UID(fmt.Sprint(e.GetUID(), "-", s.IntN(1000)))
			of = put(again)
			if s.Chance(50) {
				of = func(w *world) { createAgain(w, keyOf(e), again.UID) }
			}
		case 4:
			gone := random.Pick(s, client.Object(&corev1.Service{}), e)
			of = func(w *world) {
				delete(w.objects, key{resourceOf(gone), types.NamespacedName{Namespace: m.ns, Name: m.ns}})
			}
		case 5:
			edit := s.IntN(3)
			of = func(w *world) { editSlices(w, edit) }
		}
		changes = append(changes, change{after: time.Second, make: of})
	}
	return changes
}

// createAgain replaces an object by one with the same content, so that its mirror differs in the owner alone.
func createAgain(w *world, k key, uid types.UID) {
	old := w.objects[k]
	if old == nil {
		return
	}
	o := old.DeepCopyObject().(client.Object)
	o.SetUID(uid)
	o.SetResourceVersion("")
	o.SetDeletionTimestamp(nil)
	o.SetFinalizers(nil)
	w.objects[k] = o
}

// editSlices changes all slices as somebody does.
func editSlices(w *world, edit int) {
	for _, o := range w.list(discoveryv1.Resource("endpointslices")) {
		slice := o.DeepCopyObject().(*discoveryv1.EndpointSlice)
		slice.Generation++
		switch edit {
		case 0:
			delete(w.objects, keyOf(slice))
			continue
		case 1:
			slice.Endpoints = []discoveryv1.Endpoint{}
		case 2:
			slice.Labels["edited"] = ""
		}
		w.objects[keyOf(slice)] = slice
	}
}
