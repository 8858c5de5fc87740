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

// server has the collector's requests to the API server.
type server struct {
	client   client.Client
	live     client.Reader
	mapper   meta.RESTMapper
	recorder recorder.EventRecorder
}

// errUnresolved is returned for an owner whose existence cannot be determined, mostly because its kind is
// not served.
var errUnresolved = errors.New("an owner cannot be resolved")

// isUnserved reports whether an error means that a kind is not served in the requested version. The
// answer to that is 404, as for an object that does not exist, but without a Status in the body.
func isUnserved(err error) bool {
	return errors.Is(err, errUnresolved) || meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isOutdated reports whether a write was refused because its object has changed or is gone.
func isOutdated(err error) bool {
	return (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && !isUnserved(err)
}

// ask reads an owner of o live.
func (s *server) ask(ctx context.Context, o *object, ref metav1.OwnerReference) (verdict, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return unserved, nil
	}
	mapping, err := s.mapping(gv.WithKind(ref.Kind))
	switch {
	case isUnserved(err):
		return unserved, nil
	case err != nil:
		return unserved, err
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	owner := &object{uid: ref.UID, kind: mapping.GroupVersionKind, name: ref.Name}
	if namespaced {
		owner.namespace = o.namespace
	}
	if namespaced && o.namespace == "" {
		return unresolvable, nil
	}
	owner, err = s.get(ctx, owner)
	switch {
	case isUnserved(err):
		return unserved, nil
	case err != nil:
		return unserved, err
	case owner == nil:
		return absent, nil
	case owner.waitsForDependents():
		return waiting, nil
	default:
		return present, nil
	}
}

// mapping returns how a kind is served, in that version or, as all versions have the same objects, in
// another.
func (s *server) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = s.mapper.RESTMapping(kind.GroupKind())
	}
	return mapping, err
}

// get reads the object with the name and UID of o. It returns nil if there is none.
func (s *server) get(ctx context.Context, o *object) (*object, error) {
	now := partial(o)
	err := s.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	switch {
	case err != nil && (isUnserved(err) || !apierrors.IsNotFound(err)):
		return nil, err
	case err != nil, now.UID != o.uid:
		return nil, nil
	}
	return objectOf(o.kind, now), nil
}

// dependentsOf lists the objects of one kind that refer to o as their owner.
func (s *server) dependentsOf(ctx context.Context, o *object, kind schema.GroupVersionKind) ([]*object, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.live.List(ctx, list, client.InNamespace(o.namespace)); err != nil {
		// Not wrapped, so that isUnserved does not park the owner: the next try uses a new discovery.
		return nil, fmt.Errorf("search %s for dependents of %s %s: %v", kind, o.kind.Kind, client.ObjectKey{Namespace: o.namespace, Name: o.name}, err)
	}
	var dependents []*object
	for i := range list.Items {
		m := &list.Items[i]
		if slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.uid }) {
			dependents = append(dependents, objectOf(kind, m))
		}
	}
	return dependents, nil
}

func partial(o *object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(o.kind)
	m.Namespace, m.Name, m.UID, m.ResourceVersion = o.namespace, o.name, o.uid, o.resourceVersion
	return m
}

// patch replaces a list in the metadata of an object, unless the object has changed, and returns the
// object.
func (s *server) patch(ctx context.Context, o *object, p *patch) (*object, error) {
	metadata := map[string]any{"uid": o.uid, "resourceVersion": o.resourceVersion}
	if p.owners != nil {
		metadata["ownerReferences"] = p.owners
	}
	if p.finalizers != nil {
		metadata["finalizers"] = p.finalizers
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	m := partial(o)
	if err := s.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, err
	}
	return objectOf(o.kind, m), nil
}

// delete deletes an object, unless it has changed since the resource version of o, if that has one.
func (s *server) delete(ctx context.Context, o *object, how metav1.DeletionPropagation) error {
	preconditions := &metav1.Preconditions{UID: &o.uid}
	if o.resourceVersion != "" {
		preconditions.ResourceVersion = &o.resourceVersion
	}
	return s.client.Delete(ctx, partial(o), &client.DeleteOptions{PropagationPolicy: &how, Preconditions: preconditions})
}

// reportInvalid records an event about an object whose owner would be in another namespace.
func (s *server) reportInvalid(o *object, ref metav1.OwnerReference) {
	about := partial(o)
	about.ResourceVersion = "" // it is the same event whatever else changes
	s.recorder.Eventf(about, nil, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "CollectGarbage",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, o.namespace, ref.Name, ref.UID, o.namespace)
}
