package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/recorder"
)

// operations are the requests of the collector to the API server.
type operations struct {
	client   client.Client
	live     client.Reader
	mapper   meta.RESTMapper
	recorder recorder.EventRecorder
}

// errUnresolved is the error for an owner whose existence cannot be determined, mostly because its
// kind is not served.
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

// getOwnerState determines the state of an owner of o by a live read.
func (s *operations) getOwnerState(ctx context.Context, o *node, ref metav1.OwnerReference) (ownerState, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ownerUnknown, nil
	}
	mapping, err := s.mapping(gv.WithKind(ref.Kind))
	switch {
	case isUnserved(err):
		return ownerUnknown, nil
	case err != nil:
		return ownerUnknown, err
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	owner := &node{uid: ref.UID, kind: mapping.GroupVersionKind, name: ref.Name}
	if namespaced {
		owner.namespace = o.namespace
	}
	if namespaced && o.namespace == "" {
		return ownerUnresolvable, nil
	}
	owner, err = s.get(ctx, owner)
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

// mapping returns the mapping of a kind in that version or, because all versions have the same
// objects, in another one.
func (s *operations) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = s.mapper.RESTMapping(kind.GroupKind())
	}
	return mapping, err
}

// get reads the object with the name and UID of o live. It returns nil if there is none.
func (s *operations) get(ctx context.Context, o *node) (*node, error) {
	now := metadataOf(o)
	err := s.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	switch {
	case err != nil && (isUnserved(err) || !apierrors.IsNotFound(err)):
		return nil, err
	case err != nil, now.UID != o.uid:
		return nil, nil
	}
	return newNode(o.kind, now), nil
}

// listDependents lists the objects of one kind that refer to o as their owner.
func (s *operations) listDependents(ctx context.Context, o *node, kind schema.GroupVersionKind) ([]*node, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.live.List(ctx, list, client.InNamespace(o.namespace)); err != nil {
		// Not wrapped, so that isUnserved does not match and the owner is retried, with a new
		// discovery.
		return nil, fmt.Errorf("list %s that are dependents of %s %s: %v", kind, o.kind.Kind,
			client.ObjectKey{Namespace: o.namespace, Name: o.name}, err)
	}
	var dependents []*node
	for i := range list.Items {
		m := &list.Items[i]
		if slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.uid }) {
			dependents = append(dependents, newNode(kind, m))
		}
	}
	return dependents, nil
}

// metadataOf returns an object with the metadata of o, for requests about it.
func metadataOf(o *node) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(o.kind)
	m.Namespace, m.Name, m.UID, m.ResourceVersion = o.namespace, o.name, o.uid, o.resourceVersion
	return m
}

// patch replaces a list in the metadata of an object, unless the object has changed, and returns
// the object.
func (s *operations) patch(ctx context.Context, o *node, p *patch) (*node, error) {
	metadata := map[string]any{"uid": o.uid, "resourceVersion": o.resourceVersion}
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
	m := metadataOf(o)
	if err := s.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, err
	}
	return newNode(o.kind, m), nil
}

// delete deletes an object, unless it has changed since the resource version of o, if that has one.
func (s *operations) delete(ctx context.Context, o *node, how metav1.DeletionPropagation) error {
	preconditions := &metav1.Preconditions{UID: &o.uid}
	if o.resourceVersion != "" {
		preconditions.ResourceVersion = &o.resourceVersion
	}
	return s.client.Delete(ctx, metadataOf(o), &client.DeleteOptions{PropagationPolicy: &how,
		Preconditions: preconditions})
}

// reportInvalid records an event about an object that refers to an owner in another namespace.
func (s *operations) reportInvalid(o *node, ref metav1.OwnerReference) {
	about := metadataOf(o)
	about.ResourceVersion = "" // so that repeated events are the same, and are counted
	s.recorder.Eventf(about, nil, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "CollectGarbage",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, o.namespace, ref.Name, ref.UID, o.namespace)
}
