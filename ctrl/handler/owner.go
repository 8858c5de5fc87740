package handler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
)

// OwnerOption is an option of EnqueueRequestForOwner.
type OwnerOption func(e enqueueRequestForOwnerInterface)

// enqueueRequestForOwnerInterface is what an OwnerOption sets, for all types of objects.
type enqueueRequestForOwnerInterface interface {
	onlyController()
}

// OnlyControllerOwner restricts the handler to the owner reference that is marked as the
// controller; of several, which no API server accepts, to the first.
func OnlyControllerOwner() OwnerOption {
	return func(e enqueueRequestForOwnerInterface) { e.onlyController() }
}

// EnqueueRequestForOwner adds requests for the owners, of ownerType's kind, of the event's object;
// for an update, also of the old object. It panics unless ownerType is registered in the scheme
// with exactly one kind.
//
// Owners are matched by group and kind, not by version. Whether the kind is namespaced is looked up
// in the mapper; while that fails, no requests are added, and an error is logged for each event.
//
//go:noinline because the packages that call it would instantiate the handler
func EnqueueRequestForOwner(
	scheme *runtime.Scheme, mapper meta.RESTMapper, ownerType client.Object, opts ...OwnerOption,
) EventHandler {
	return TypedEnqueueRequestForOwner[client.Object](scheme, mapper, ownerType, opts...)
}

// TypedEnqueueRequestForOwner is EnqueueRequestForOwner for objects of one type.
func TypedEnqueueRequestForOwner[object client.Object](
	scheme *runtime.Scheme, mapper meta.RESTMapper, ownerType client.Object, opts ...OwnerOption,
) TypedEventHandler[object, reconcile.Request] {
	kinds, _, err := scheme.ObjectKinds(ownerType)
	if err == nil && len(kinds) != 1 {
		err = fmt.Errorf("expected exactly 1 kind for OwnerType %T, but found %v", ownerType, kinds)
	}
	if err != nil {
		panic(err)
	}
	o := &owners{kind: kinds[0].GroupKind(), mapper: mapper}
	for _, opt := range opts {
		opt(o)
	}
	return TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj object) []reconcile.Request {
		if reflectutil.IsNil(obj) {
			return nil
		}
		return o.requests(obj)
	})
}

// owners maps an object to requests for its owners of one kind.
type owners struct {
	kind       schema.GroupKind
	controller bool
	mapper     meta.RESTMapper
}

func (o *owners) onlyController() { o.controller = true }

// requests returns a request for every matching owner of obj.
func (o *owners) requests(obj metav1.Object) []reconcile.Request {
	var reqs []reconcile.Request
	for _, ref := range o.references(obj) {
		if ref.Kind != o.kind.Kind {
			continue
		}
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			log.Current().WithName("handler").Error(err, "owner reference with a malformed apiVersion",
				"namespace", obj.GetNamespace(), "name", obj.GetName(), "owner", ref.Name)
			continue
		}
		if gv.Group != o.kind.Group {
			continue
		}
		mapping, err := o.mapper.RESTMapping(o.kind, gv.Version)
		if err != nil {
			log.Current().WithName("handler").Error(err, "cannot determine the scope of the owner's kind",
				"kind", o.kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "owner", ref.Name)
			continue
		}
		req := reconcile.Request{}
		req.Name = ref.Name
		if mapping.Scope.Name() != meta.RESTScopeNameRoot {
			req.Namespace = obj.GetNamespace()
		}
		reqs = append(reqs, req)
	}
	return reqs
}

// references returns the owner references to match.
func (o *owners) references(obj metav1.Object) []metav1.OwnerReference {
	if !o.controller {
		return obj.GetOwnerReferences()
	}
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return []metav1.OwnerReference{*ref}
	}
	return nil
}
