package resource

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Status is the storage of a status subresource. It reads whole objects, updates the fields that its strategy permits,
// and never creates an object.
type Status struct{ store *registry.Store }

var _ rest.Patcher = (*Status)(nil)

// NewStatus returns the status subresource for the objects of a store. It uses its own strategy, and does not call the
// hooks for updates of whole objects.
func NewStatus(objects *registry.Store, strategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}) *Status {
	store := *objects
	store.UpdateStrategy, store.ResetFieldsStrategy = strategy, strategy
	store.BeginUpdate, store.AfterUpdate = nil, nil
	return &Status{&store}
}

// New implements [rest.Storage].
func (s *Status) New() runtime.Object { return s.store.New() }

// Destroy implements [rest.Storage].
func (s *Status) Destroy() {}

// Get implements [rest.Getter].
func (s *Status) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements [rest.Updater].
func (s *Status) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

var _ RegistryUpdater = (*Status)(nil)

// Registry implements [RegistryUpdater].
func (s *Status) Registry() *registry.Store { return s.store }

// GetResetFields implements [rest.ResetFieldsStrategy].
func (s *Status) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// ConvertToTable implements [rest.TableConvertor].
func (s *Status) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, options)
}
