package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/client"
)

// operations are the requests of the collector to the API server.
type operations struct {
	client   client.Client
	live     client.Reader
	mapper   meta.RESTMapperWithContext
	recorder record.EventRecorder
}

// errUnresolved is the error if the existence of an owner cannot be determined, mostly because its kind is not served.
var errUnresolved = errors.New("an owner cannot be resolved")

// isUnserved reports whether an error means that a kind is not served in the requested version. The
// response to such a request is a 404, as for an object that does not exist, but its body is not a
// Status.
func isUnserved(err error) bool {
	return errors.Is(err, errUnresolved) || meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isStale reports whether a write failed because the object has changed or does not exist.
func isStale(err error) bool {
	return (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && !isUnserved(err)
}

// isRefused reports whether the server will not do a write.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err)
}

// getOwnerState determines the state of an owner of n by a live read.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.isDangling
func (o *operations) getOwnerState(ctx context.Context, n *node, ref metav1.OwnerReference) (ownerState, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ownerUnknown, nil
	}
	mapping, err := o.mapping(ctx, gv.WithKind(ref.Kind))
	switch {
	case isUnserved(err):
		return ownerUnknown, nil
	case err != nil:
		return ownerUnknown, err
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	owner := &node{uid: ref.UID, kind: mapping.GroupVersionKind, name: ref.Name}
	if namespaced {
		owner.namespace = n.namespace
	}
	if namespaced && n.namespace == "" {
		return ownerUnresolvable, nil
	}
	owner, err = o.get(ctx, owner)
	switch {
	case isUnserved(err):
		return ownerUnknown, nil
	case err != nil:
		return ownerUnknown, err
	case owner == nil:
		return ownerAbsent, nil
	case owner.isDeletingDependents():
		return ownerWaiting, nil
	default:
		return ownerPresent, nil
	}
}

// mapping returns the mapping of a kind in its version, or else in another version, since all versions have the same
// objects.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.apiResource
func (o *operations) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := o.mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = o.mapper.RESTMappingWithContext(ctx, kind.GroupKind())
	}
	return mapping, err
}

// get reads the object with the name and UID of n live. It returns nil if there is none.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.getObject
func (o *operations) get(ctx context.Context, n *node) (*node, error) {
	now := metadataOf(n)
	err := o.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	switch {
	case err != nil && (isUnserved(err) || !apierrors.IsNotFound(err)):
		return nil, err
	case err != nil, now.UID != n.uid:
		return nil, nil
	}
	return newNode(n.kind, now), nil
}

// listDependents lists the objects of one kind that refer to n as their owner.
func (o *operations) listDependents(ctx context.Context, n *node, kind schema.GroupVersionKind) ([]*node, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := o.live.List(ctx, list, client.InNamespace(n.namespace)); err != nil {
		// Not wrapped, so that isUnserved does not match and the owner is retried, with a new
		// discovery.
		return nil, fmt.Errorf("list %s that are dependents of %s %s: %v", kind, n.kind.Kind,
			client.ObjectKey{Namespace: n.namespace, Name: n.name}, err)
	}
	var dependents []*node
	for i := range list.Items {
		m := &list.Items[i]
		if slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == n.uid }) {
			dependents = append(dependents, newNode(kind, m))
		}
	}
	return dependents, nil
}

// metadataOf returns an object with the metadata of n, for requests about it.
func metadataOf(n *node) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(n.kind)
	m.Namespace, m.Name, m.UID, m.ResourceVersion = n.namespace, n.name, n.uid, n.resourceVersion
	return m
}

// patch replaces a list in the metadata of an object, unless the object has changed, and returns
// the object.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.patchObject
func (o *operations) patch(ctx context.Context, n *node, p *patch) (*node, error) {
	metadata := map[string]any{"uid": n.uid, "resourceVersion": n.resourceVersion}
	if p.ownerReferences != nil {
		metadata["ownerReferences"] = p.ownerReferences
	}
	if p.finalizers != nil {
		metadata["finalizers"] = p.finalizers
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	m := metadataOf(n)
	if err := o.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, err
	}
	return newNode(n.kind, m), nil
}

// delete deletes an object, unless it has changed since the resource version of n, if that has one.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.deleteObject
func (o *operations) delete(ctx context.Context, n *node, how metav1.DeletionPropagation) error {
	preconditions := &metav1.Preconditions{UID: &n.uid}
	if n.resourceVersion != "" {
		preconditions.ResourceVersion = &n.resourceVersion
	}
	return o.client.Delete(ctx, metadataOf(n), &client.DeleteOptions{PropagationPolicy: &how,
		Preconditions: preconditions})
}
