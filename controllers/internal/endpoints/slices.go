package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// SliceGroup is a set of endpoints with the same ports. An EndpointSlice has endpoints of one group.
type SliceGroup struct {
	Type      discoveryv1.AddressType
	Ports     []discoveryv1.EndpointPort
	Endpoints []discoveryv1.Endpoint
}

// key identifies the group of a slice.
func key(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	ports = append([]discoveryv1.EndpointPort{}, ports...)
	slices.SortFunc(ports, func(a, b discoveryv1.EndpointPort) int {
		return cmp.Or(strings.Compare(ptr.Deref(a.Name, ""), ptr.Deref(b.Name, "")), cmp.Compare(ptr.Deref(a.Port, 0), ptr.Deref(b.Port, 0)))
	})
	text, err := json.Marshal(ports)
	if err != nil {
		panic(err) // a port has only scalars
	}
	return string(family) + string(text)
}

// Groups collects endpoints by address type and ports, in the order in which they were added.
type Groups []*SliceGroup

// Add adds an endpoint to its group.
func (g *Groups) Add(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort, e discoveryv1.Endpoint) {
	k := key(family, ports)
	i := slices.IndexFunc(*g, func(o *SliceGroup) bool { return key(o.Type, o.Ports) == k })
	if i < 0 {
		i = len(*g)
		*g = append(*g, &SliceGroup{Type: family, Ports: ports})
	}
	(*g)[i].Endpoints = append((*g)[i].Endpoints, e)
}

// Slices are the EndpointSlices that an owner should have.
type Slices struct {
	// Meta is the metadata of new slices. Labels and annotations of existing ones are replaced by
	// it, except for the trigger time, which changes only with the endpoints.
	Meta   metav1.ObjectMeta
	Groups Groups
	// Limit is the highest number of endpoints in a slice.
	Limit int
}

// SlicesMeta returns the metadata of the slices for a Service: they belong to the owner and have its
// labels.
//
//upstream:k8s.io/endpointslice.newEndpointSlice
//upstream:k8s.io/endpointslice.setEndpointSliceLabels
//upstream:k8s.io/endpointslice.getEndpointSlicePrefix
func SlicesMeta(owner metav1.Object, ref *metav1.OwnerReference, manager, triggerTime string) metav1.ObjectMeta {
	prefix := owner.GetName() + "-"
	if len(prefix) > validation.DNS1123SubdomainMaxLength {
		prefix = owner.GetName()
	}
	labels := map[string]string{}
	maps.Copy(labels, owner.GetLabels())
	delete(labels, corev1.IsHeadlessService)
	labels[discoveryv1.LabelServiceName] = owner.GetName()
	labels[discoveryv1.LabelManagedBy] = manager
	m := metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), GenerateName: prefix, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*ref},
	}
	if triggerTime != "" {
		m.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: triggerTime}
	}
	return m
}

// Changes are changes of EndpointSlices.
type Changes struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
}

// Plan returns the changes that make the existing slices those that are wanted. An endpoint stays in
// its slice, and others are added first to slices that change anyway.
//
//upstream:k8s.io/endpointslice.Reconciler.reconcileByAddressType
func (s *Slices) Plan(existing []*discoveryv1.EndpointSlice) Changes {
	var c Changes
	groups := map[string]*SliceGroup{}
	for _, g := range s.Groups {
		groups[key(g.Type, g.Ports)] = g
	}
	members := map[*SliceGroup][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		g := groups[key(slice.AddressType, slice.Ports)]
		if g == nil || slice.DeletionTimestamp != nil {
			c.Delete = append(c.Delete, slice)
			continue
		}
		members[g] = append(members[g], slice)
	}
	for _, g := range s.Groups {
		s.distribute(g, members[g], &c)
	}
	c.Delete = slices.DeleteFunc(c.Delete, func(o *discoveryv1.EndpointSlice) bool { return o.DeletionTimestamp != nil })
	return c
}

// distribute plans the slices of one group.
//
//upstream:k8s.io/endpointslice.Reconciler.reconcileByPortMapping
func (s *Slices) distribute(g *SliceGroup, existing []*discoveryv1.EndpointSlice, c *Changes) {
	missing := map[string]discoveryv1.Endpoint{}
	for _, e := range g.Endpoints {
		missing[identity(&e)] = e
	}
	kept := make([]*discoveryv1.EndpointSlice, len(existing))
	changed := make([]bool, len(existing))
	for i, slice := range existing {
		kept[i] = slice.DeepCopy()
		kept[i].Endpoints = nil
		for _, e := range slice.Endpoints {
			if wanted, ok := missing[identity(&e)]; ok && len(kept[i].Endpoints) < s.Limit {
				kept[i].Endpoints = append(kept[i].Endpoints, wanted)
				delete(missing, identity(&e))
			}
		}
		changed[i] = !equality.Semantic.DeepEqual(kept[i].Endpoints, slice.Endpoints)
	}
	var rest []discoveryv1.Endpoint
	for _, e := range g.Endpoints {
		if _, ok := missing[identity(&e)]; ok {
			rest = append(rest, e)
			delete(missing, identity(&e))
		}
	}
	for _, first := range []bool{true, false} {
		for i := range kept {
			n := min(s.Limit-len(kept[i].Endpoints), len(rest))
			if n > 0 && changed[i] == first {
				kept[i].Endpoints, rest = append(kept[i].Endpoints, rest[:n]...), rest[n:]
				changed[i] = true
			}
		}
	}
	remaining := 0
	for i, slice := range kept {
		switch {
		case len(slice.Endpoints) == 0 && (len(g.Endpoints) > 0 || remaining > 0):
			c.Delete = append(c.Delete, existing[i])
			continue
		case s.setMeta(slice, changed[i]) || changed[i]:
			c.Update = append(c.Update, slice)
		}
		remaining++
	}
	for chunk := range slices.Chunk(rest, s.Limit) {
		c.Create = append(c.Create, s.newSlice(g, chunk))
		remaining++
	}
	if remaining == 0 { // for a group without endpoints
		c.Create = append(c.Create, s.newSlice(g, nil))
	}
}

// identity identifies an endpoint of a group.
//
//upstream:k8s.io/endpointslice/util.hashEndpoint
func identity(e *discoveryv1.Endpoint) string {
	id := strings.Join(e.Addresses, ",")
	if e.TargetRef != nil {
		id += "/" + e.TargetRef.Namespace + "/" + e.TargetRef.Name + "/" + string(e.TargetRef.UID)
	}
	return id
}

// setMeta sets labels, annotations and owner of an existing slice, and reports whether they were
// different.
//
//upstream:k8s.io/endpointslice.setEndpointSliceLabels
//upstream:k8s.io/endpointslice.addTriggerTimeAnnotation
func (s *Slices) setMeta(slice *discoveryv1.EndpointSlice, endpointsChanged bool) bool {
	before := slice.ObjectMeta.DeepCopy()
	slice.Labels, slice.OwnerReferences = maps.Clone(s.Meta.Labels), slices.Clone(s.Meta.OwnerReferences)
	slice.Annotations = maps.Clone(s.Meta.Annotations)
	if at, ok := before.Annotations[corev1.EndpointsLastChangeTriggerTime]; !endpointsChanged {
		delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
		if ok {
			metav1.SetMetaDataAnnotation(&slice.ObjectMeta, corev1.EndpointsLastChangeTriggerTime, at)
		}
	}
	return !equality.Semantic.DeepEqual(before, &slice.ObjectMeta)
}

func (s *Slices) newSlice(g *SliceGroup, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: *s.Meta.DeepCopy(), AddressType: g.Type, Ports: g.Ports, Endpoints: slices.Clone(endpoints),
	}
}

// Existing returns the EndpointSlices of a Service that a controller manages.
func Existing(ctx context.Context, c client.Reader, service client.ObjectKey,
	manager string) ([]*discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := c.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: manager,
	})
	if err != nil {
		return nil, err
	}
	existing := make([]*discoveryv1.EndpointSlice, len(list.Items))
	for i := range list.Items {
		existing[i] = &list.Items[i]
	}
	return existing, nil
}

// Apply executes changes. Slices are created first, so that no endpoint is missing in between. In a
// namespace that is terminating nothing can be created, which is not an error; nor is a slice that was
// deleted meanwhile, since its deletion causes another reconcile.
//
//upstream:k8s.io/endpointslice.Reconciler.finalize
func (c *Changes) Apply(ctx context.Context, to client.Writer) error {
	if err := c.apply(ctx, to); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	return nil
}

func (c *Changes) apply(ctx context.Context, to client.Writer) error {
	for _, slice := range c.Create {
		if err := to.Create(ctx, slice); err != nil {
			return err
		}
	}
	for _, slice := range c.Update {
		if err := to.Update(ctx, slice); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	for _, slice := range c.Delete {
		if err := to.Delete(ctx, slice, client.Preconditions{UID: &slice.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// OfSlice returns a function that maps the slices of a manager to their Services. The Endpoints of a
// Service have its name.
//
//upstream:k8s.io/endpointslice.ServiceControllerKey
func OfSlice(manager string) handler.MapFunc {
	return func(_ context.Context, slice client.Object) []reconcile.Request {
		labels := slice.GetLabels()
		key := client.ObjectKey{Namespace: slice.GetNamespace(), Name: labels[discoveryv1.LabelServiceName]}
		if labels[discoveryv1.LabelManagedBy] != manager || key.Name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	}
}
