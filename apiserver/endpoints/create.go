package endpoints

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// createFunc creates an object in the storage, as [rest.Creater] does.
type createFunc func(context.Context, runtime.Object, rest.ValidateObjectFunc, *metav1.CreateOptions) (runtime.Object, error)

// create creates an object, or performs the action of a subresource, such as a binding. The fast path does not support
// sent managed fields and several owners.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.createHandler
func (w *write) create(ctx context.Context, store createFunc) (runtime.Object, error) {
	obj, err := w.decode()
	switch {
	case err != nil:
		return nil, err
	case w.parameters.force != nil:
		return nil, errParameters
	case len(obj.GetManagedFields()) > 0:
		return nil, errManagedFields
	case len(obj.GetOwnerReferences()) > 1:
		return nil, errOwners
	}
	scope := w.resource.Scope
	audit.LogRequestObject(ctx, obj, w.sent, scope.Resource, scope.Subresource, scope.Serializer)
	if !w.preservesMetadata() {
		rest.WipeObjectMetaSystemFields(obj)
	}
	if !w.createsByName() {
		w.name = obj.GetName()
	}
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
	created, err := store(ctx, obj, validate, options)
	if status, ok := created.(*metav1.Status); err == nil && ok {
		switch {
		case status.Status != metav1.StatusSuccess:
			err = errors.FromObject(status)
		case status.Code == 0:
			status.Code = http.StatusCreated
		}
	}
	return created, err
}

// createsByName reports whether the path of a create names an object.
func (w writer) createsByName() bool {
	_, ok := w.resource.Storage.(rest.NamedCreater)
	return ok
}

// preservesMetadata reports whether a create keeps the metadata fields that the server usually sets.
func (w writer) preservesMetadata() bool {
	p, ok := w.resource.Storage.(rest.SubresourceObjectMetaPreserver)
	return ok && w.resource.Scope.Subresource != "" && p.PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate()
}
