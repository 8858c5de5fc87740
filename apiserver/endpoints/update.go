package endpoints

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/rest"
)

// update replaces an existing object by the object in the body, which may have at most one owner.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.UpdateResource
func (w *write) update(ctx context.Context, storage rest.Updater) (runtime.Object, error) {
	obj, err := w.decode()
	switch {
	case err != nil:
		return nil, err
	case w.parameters.force != nil:
		return nil, errParameters
	case obj.GetName() != w.name:
		return nil, errDocument
	case len(obj.GetOwnerReferences()) > 1:
		return nil, errOwners
	}
	scope := w.resource.Scope
	audit.LogRequestObject(ctx, obj, w.sent, scope.Resource, scope.Subresource, scope.Serializer)
	uid := obj.GetUID()
	return w.replace(ctx, storage, uid, func(old object) (object, error) {
		next := obj
		obj = nil // the storage changes it, and asks again after a conflict
		if next == nil {
			if next, err = w.decode(); err != nil {
				return nil, err
			}
		}
		return next, w.track(old, next)
	})
}

// replace replaces an existing object by the result of change, sets the managed fields, and passes the object through
// the remaining stages. It calls change again if another request has written the object in the meantime. An error of
// change is the response unless it is a [fallback]. If uid is not empty, it must be the uid of the object.
func (w *write) replace(ctx context.Context, storage rest.Updater, uid types.UID,
	change func(old object) (object, error)) (runtime.Object, error) {
	options := &metav1.UpdateOptions{FieldManager: w.parameters.fieldManager, FieldValidation: w.parameters.fieldValidation}
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	var validate rest.ValidateObjectUpdateFunc
	if v, ok := w.admission.(admission.ValidationInterface); ok && v.Handles(admission.Update) {
		validate = rest.AdmissionToValidateObjectUpdateFunc(w.admission,
			w.attributes(ctx, nil, nil, admission.Update, options), w.resource.Scope)
	}
	refuse := func(context.Context, runtime.Object) error { return errMissing }
	info := &replacement{w, uid, options, change}
	if store, ok := storeOf(storage); ok {
		result, err := w.store(ctx, store, info, validate)
		if !errors.Is(err, errTerminating) {
			return result, err
		}
	}
	result, _, err := storage.Update(ctx, w.name, info, refuse, validate, false, options)
	return result, err
}

// replacement is the object that a write stores. It implements [rest.UpdatedObjectInfo].
//
//upstream:k8s.io/apiserver/pkg/registry/rest.defaultUpdatedObjectInfo
type replacement struct {
	*write
	uid     types.UID
	options *metav1.UpdateOptions
	change  func(old object) (object, error)
}

// Preconditions implements [rest.UpdatedObjectInfo].
func (r *replacement) Preconditions() *metav1.Preconditions {
	if r.uid == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &r.uid}
}

// UpdatedObject implements [rest.UpdatedObjectInfo].
func (r *replacement) UpdatedObject(ctx context.Context, current runtime.Object) (runtime.Object, error) {
	old, ok := current.(object)
	if !ok || old.GetUID() == "" {
		return nil, errMissing
	}
	obj, err := r.change(old)
	if err != nil {
		return nil, err
	}
	if err := r.inNamespace(obj); err != nil {
		return nil, err
	}
	if obj.GetName() != r.name {
		return nil, errDocument
	}
	if err := r.admit(ctx, obj, r.attributes(ctx, obj, old, admission.Update, r.options)); err != nil {
		return nil, err
	}
	if len(obj.GetOwnerReferences()) > 1 {
		removeDuplicateOwners(ctx, obj)
	}
	return obj, nil
}
