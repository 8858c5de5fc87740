package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
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

// GroupKey identifies the group of endpoints with an address type and ports in any order.
//
//upstream:k8s.io/endpointslice/util.NewPortMapKey
func GroupKey(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	ports = append([]discoveryv1.EndpointPort{}, ports...)
	slices.SortFunc(ports, func(a, b discoveryv1.EndpointPort) int {
		return cmp.Or(strings.Compare(ptr.Deref(a.Name, ""), ptr.Deref(b.Name, "")), cmp.Compare(ptr.Deref(a.Port, 0), ptr.Deref(b.Port, 0)),
			strings.Compare(string(ptr.Deref(a.Protocol, "")), string(ptr.Deref(b.Protocol, ""))))
	})
	text, err := json.Marshal(ports)
	if err != nil {
		panic(err) // a port has only scalars
	}
	return string(family) + string(text)
}

// Groups collects endpoints by address type and ports, in the order in which they were added.
type Groups []*SliceGroup

// Add adds endpoints to their group, which exists also without endpoints.
func (g *Groups) Add(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) {
	k := GroupKey(family, ports)
	i := slices.IndexFunc(*g, func(o *SliceGroup) bool { return GroupKey(o.Type, o.Ports) == k })
	if i < 0 {
		i = len(*g)
		*g = append(*g, &SliceGroup{Type: family, Ports: ports})
	}
	(*g)[i].Endpoints = append((*g)[i].Endpoints, endpoints...)
}

// Slices are the EndpointSlices that an owner should have.
type Slices struct {
	// Meta is the metadata of new slices. Labels and annotations of existing ones are replaced by
	// it, except for the trigger time, which changes only with the endpoints.
	Meta   metav1.ObjectMeta
	Groups Groups
	// Types are the address types. Each has at least one slice: a placeholder without ports and endpoints.
	Types []discoveryv1.AddressType
	// Limit is the highest number of endpoints in a slice.
	Limit int
}

// SlicesMeta returns the metadata of the slices for a Service or its Endpoints: the slices belong to the owner and have its
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
	// types, if not nil, are the address types that change each for itself.
	types []discoveryv1.AddressType
}

// Plan returns the changes from the existing slices to the wanted ones. An endpoint stays in
// its slice, and others are added first to slices that change anyway.
//
//upstream:k8s.io/endpointslice.Reconciler.Reconcile
func (s *Slices) Plan(existing []*discoveryv1.EndpointSlice) Changes {
	c := Changes{types: s.Types}
	byType := map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		switch {
		case slice.DeletionTimestamp != nil:
		case slices.Contains(s.Types, slice.AddressType):
			byType[slice.AddressType] = append(byType[slice.AddressType], slice)
		default:
			c.Delete = append(c.Delete, slice)
		}
	}
	for _, t := range s.Types {
		of := s.planType(t, byType[t])
		c.Create, c.Update, c.Delete = append(c.Create, of.Create...), append(c.Update, of.Update...), append(c.Delete, of.Delete...)
	}
	return c
}

// planType plans the slices of an address type. Slices of other owners are deleted, and not adopted.
//
//upstream:k8s.io/endpointslice.Reconciler.reconcileByAddressType
func (s *Slices) planType(t discoveryv1.AddressType, all []*discoveryv1.EndpointSlice) (c Changes) {
	var existing, others []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if s.owns(slice) {
			existing = append(existing, slice)
		} else {
			others = append(others, slice)
		}
	}
	wanted := map[string]bool{}
	for _, g := range s.Groups {
		if g.Type == t {
			k := GroupKey(t, g.Ports)
			wanted[k] = true
			s.distribute(g, slices.DeleteFunc(slices.Clone(existing), func(o *discoveryv1.EndpointSlice) bool { return GroupKey(t, o.Ports) != k }), &c)
		}
	}
	for _, slice := range existing {
		if !wanted[GroupKey(t, slice.Ports)] {
			c.Delete = append(c.Delete, slice)
		}
	}
	if len(existing) == len(c.Delete) && len(c.Create) == 0 {
		placeholder := s.newSlice(&SliceGroup{Type: t}, nil)
		if len(existing) == 1 && isPlaceholder(existing[0], placeholder) {
			return Changes{Delete: others}
		}
		c.Create = append(c.Create, placeholder)
	}
	c.Reuse()
	c.Delete = append(c.Delete, others...)
	return c
}

// owns reports whether the owner of the slices owns a slice.
//
//upstream:k8s.io/endpointslice.ownedBy
func (s *Slices) owns(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool {
		owner := s.Meta.OwnerReferences[0]
		return o.UID == owner.UID && o.Kind == owner.Kind && o.APIVersion == owner.APIVersion
	})
}

// isPlaceholder reports whether a slice is like a placeholder, with the same owners. A label without a value may be missing.
//
//upstream:k8s.io/endpointslice.placeholderSliceCompare
func isPlaceholder(slice, placeholder *discoveryv1.EndpointSlice) bool {
	for key := range placeholder.Labels {
		if slice.Labels[key] != placeholder.Labels[key] {
			return false
		}
	}
	for key := range slice.Labels {
		if slice.Labels[key] != placeholder.Labels[key] {
			return false
		}
	}
	return len(slice.Ports)+len(slice.Endpoints) == 0 &&
		slices.EqualFunc(slice.OwnerReferences, placeholder.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
}

// Reuse updates slices instead of deleting them and creating others of the same address type.
//
//upstream:k8s.io/endpointslice.Reconciler.finalize
//upstream:pkg/controller/endpointslicemirroring.recycleSlices
func (c *Changes) Reuse() {
	var create []*discoveryv1.EndpointSlice
	for _, slice := range c.Create {
		i := slices.IndexFunc(c.Delete, func(o *discoveryv1.EndpointSlice) bool { return o.AddressType == slice.AddressType })
		if i < 0 {
			create = append(create, slice)
			continue
		}
		slice.Name = c.Delete[i].Name
		c.Update, c.Delete = append(c.Update, slice), slices.Delete(c.Delete, i, i+1)
	}
	c.Create = create
}

// distribute plans the slices of one group.
//
//upstream:k8s.io/endpointslice.Reconciler.reconcileByPortMapping
func (s *Slices) distribute(g *SliceGroup, existing []*discoveryv1.EndpointSlice, c *Changes) {
	missing := map[string]discoveryv1.Endpoint{}
	for _, e := range g.Endpoints {
		missing[Identity(&e)] = e
	}
	var changed, unchanged []*discoveryv1.EndpointSlice
	for _, slice := range existing {
		kept := s.keep(slice, missing)
		differs := !equality.Semantic.DeepEqual(kept.Endpoints, slice.Endpoints)
		switch {
		case differs && len(kept.Endpoints) == 0:
			c.Delete = append(c.Delete, slice)
		case s.setMeta(kept, differs) || differs:
			changed = append(changed, kept)
		default:
			unchanged = append(unchanged, slice.DeepCopy())
		}
	}
	rest := slices.DeleteFunc(slices.Clone(g.Endpoints), func(e discoveryv1.Endpoint) bool {
		_, ok := missing[Identity(&e)]
		delete(missing, Identity(&e)) // the first one of several counts
		return !ok
	})
	fill := func(slice *discoveryv1.EndpointSlice) {
		if n := min(s.Limit-len(slice.Endpoints), len(rest)); n > 0 {
			slice.Endpoints, rest = append(slice.Endpoints, rest[:n]...), rest[n:]
			s.setTriggerTime(slice)
		}
	}
	slices.SortStableFunc(changed, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(len(b.Endpoints), len(a.Endpoints)) })
	for _, slice := range changed {
		fill(slice)
	}
	if i := s.fullest(unchanged, len(rest)); i >= 0 {
		fill(unchanged[i])
		changed = append(changed, unchanged[i])
	}
	c.Update = append(c.Update, changed...)
	for chunk := range slices.Chunk(rest, s.Limit) {
		c.Create = append(c.Create, s.newSlice(g, chunk))
	}
}

// keep returns a copy of a slice with the endpoints that are wanted, as they should be, and removes these from the missing
// endpoints.
func (s *Slices) keep(slice *discoveryv1.EndpointSlice, missing map[string]discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	kept := slice.DeepCopy()
	kept.Endpoints = nil
	for _, e := range slice.Endpoints {
		if wanted, ok := missing[Identity(&e)]; ok && len(kept.Endpoints) < s.Limit {
			kept.Endpoints = append(kept.Endpoints, wanted)
			delete(missing, Identity(&e))
		}
	}
	return kept
}

// fullest returns the index of the slice that has the least space left after n endpoints are added, or -1 if no slice has
// enough space.
//
//upstream:k8s.io/endpointslice.getSliceToFill
func (s *Slices) fullest(list []*discoveryv1.EndpointSlice, n int) int {
	best, left := -1, s.Limit
	for i, slice := range list {
		if l := s.Limit - len(slice.Endpoints) - n; n > 0 && l >= 0 && l < left {
			best, left = i, l
		}
	}
	return best
}

// Identity identifies an endpoint of a group.
//
//upstream:k8s.io/endpointslice/util.hashEndpoint
func Identity(e *discoveryv1.Endpoint) string {
	id := strings.Join(e.Addresses, ",") + "/" + ptr.Deref(e.Hostname, "")
	if e.TargetRef != nil {
		id += "/" + e.TargetRef.Namespace + "/" + e.TargetRef.Name
	}
	return id
}

// setTriggerTime sets the annotation of a slice with changed endpoints.
//
//upstream:k8s.io/endpointslice.addTriggerTimeAnnotation
func (s *Slices) setTriggerTime(slice *discoveryv1.EndpointSlice) {
	delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
	if at, ok := s.Meta.Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, corev1.EndpointsLastChangeTriggerTime, at)
	}
}

// setMeta sets labels, annotations and owner of an existing slice, and reports whether they were different. The reserved
// labels do not count.
//
//upstream:k8s.io/endpointslice.setEndpointSliceLabels
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
	after := slice.ObjectMeta.DeepCopy()
	for _, key := range []string{corev1.IsHeadlessService, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy} {
		delete(before.Labels, key)
		delete(after.Labels, key)
	}
	return !equality.Semantic.DeepEqual(before, after)
}

func (s *Slices) newSlice(g *SliceGroup, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: *s.Meta.DeepCopy(), AddressType: g.Type,
		Ports: append([]discoveryv1.EndpointPort{}, g.Ports...), Endpoints: append([]discoveryv1.Endpoint{}, endpoints...)}
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

// Apply executes changes for an owner, such as "Service default/web", which errors name. Slices are created first, so that no
// endpoint is missing in between. After an error, the rest of an address type is left. In a namespace that is terminating nothing
// can be created, which is not an error; nor is a slice that was deleted meanwhile, since its deletion causes another reconcile.
//
//upstream:k8s.io/endpointslice.Reconciler.Reconcile
func (c *Changes) Apply(ctx context.Context, to client.Writer, owner string) error {
	if c.types == nil {
		return c.apply(ctx, to, owner)
	}
	var errs []error
	for _, t := range c.types {
		of := Changes{Create: ofType(c.Create, t), Update: ofType(c.Update, t), Delete: ofType(c.Delete, t)}
		errs = append(errs, of.apply(ctx, to, owner))
	}
	for _, slice := range c.Delete {
		if slices.Contains(c.types, slice.AddressType) {
			continue
		}
		if err := remove(ctx, to, slice); err != nil {
			errs = append(errs, fmt.Errorf("error deleting %s EndpointSlice for %s: %w", slice.Name, owner, err))
		}
	}
	return utilerrors.NewAggregate(errs)
}

func ofType(list []*discoveryv1.EndpointSlice, t discoveryv1.AddressType) (of []*discoveryv1.EndpointSlice) {
	for _, slice := range list {
		if slice.AddressType == t {
			of = append(of, slice)
		}
	}
	return of
}

// apply executes changes until one fails.
//
//upstream:k8s.io/endpointslice.Reconciler.finalize
//upstream:pkg/controller/endpointslicemirroring.reconciler.finalize
func (c *Changes) apply(ctx context.Context, to client.Writer, owner string) error {
	for _, slice := range c.Create {
		err := to.Create(ctx, slice)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to create EndpointSlice for %s: %w", owner, err)
		}
	}
	for _, slice := range c.Update {
		if err := to.Update(ctx, slice); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to update %s EndpointSlice for %s: %w", slice.Name, owner, err)
		}
	}
	for _, slice := range c.Delete {
		if err := remove(ctx, to, slice); err != nil {
			return fmt.Errorf("failed to delete %s EndpointSlice for %s: %w", slice.Name, owner, err)
		}
	}
	return nil
}

func remove(ctx context.Context, from client.Writer, slice *discoveryv1.EndpointSlice) error {
	return client.IgnoreNotFound(from.Delete(ctx, slice, client.Preconditions{UID: &slice.UID}))
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
