package endpoints

import (
	"context"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// create serves a usual create: one of an object that nobody manages or owns twice yet.
func (w *write) create(ctx context.Context, storage rest.Creater) (runtime.Object, error) {
	obj, err := w.decode()
	if err != nil || w.parameters.force != nil || len(obj.GetManagedFields()) > 0 || len(obj.GetOwnerReferences()) > 1 {
		return nil, errUnusual
	}
	rest.WipeObjectMetaSystemFields(obj)
	scope := w.resource.Scope
	w.name = obj.GetName()
	if w.namespace == "" && scope.Resource.Group == "" && scope.Resource.Resource == "namespaces" {
		w.namespace = w.name
		ctx = request.WithNamespace(ctx, w.namespace)
	}
	if err := w.inNamespace(obj); err != nil {
		return nil, err
	}
	if err := w.track(nil, obj); err != nil {
		return nil, err
	}
	options := &metav1.CreateOptions{FieldManager: w.parameters.fieldManager, FieldValidation: w.parameters.fieldValidation}
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	attributes := w.attributes(ctx, obj, nil, admission.Create, options)
	if err := w.admit(ctx, obj, attributes); err != nil {
		return nil, err
	}
	validate := rest.AdmissionToValidateObjectFunc(w.admission, attributes, scope)
	created, err := storage.Create(ctx, obj, validate, options)
	if status, ok := created.(*metav1.Status); err == nil && ok && status.Status != metav1.StatusSuccess {
		err = errors.FromObject(status)
	}
	return created, err
}
