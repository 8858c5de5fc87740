package kinds

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaleREST is the scale subresource of a kind.
//
//upstream:pkg/registry/apps/deployment/storage.ScaleREST
type scaleREST struct {
	store    *registry.Store
	scale    *ScaleOf[Object]
	kind     schema.GroupVersionKind
	resource schema.GroupResource
}

var _ rest.Patcher = (*scaleREST)(nil)

func (r *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }
func (r *scaleREST) Destroy()            {}

func (r *scaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return scaleKind
}

func (r *scaleREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.of(obj.(Object))
}

// Update sets the number of replicas of the object.
func (r *scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	onCreate rest.ValidateObjectFunc, onUpdate rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := r.store.Update(ctx, name, &scaledInfo{info, r},
		func(ctx context.Context, obj runtime.Object) error {
			scale, err := r.of(obj.(Object))
			if err != nil {
				return err
			}
			return onCreate(ctx, scale)
		},
		func(ctx context.Context, obj, old runtime.Object) error {
			scale, err := r.of(obj.(Object))
			if err != nil {
				return err
			}
			was, err := r.of(old.(Object))
			if err != nil {
				return err
			}
			return onUpdate(ctx, scale, was)
		}, false, options)
	if err != nil {
		return nil, false, err
	}
	scale, err := r.of(obj.(Object))
	return scale, false, err
}

func (r *scaleREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(r.resource).ConvertToTable(ctx, obj, options)
}

func (r *scaleREST) of(obj Object) (*autoscalingv1.Scale, error) {
	selector, err := metav1.LabelSelectorAsSelector(r.scale.Selector(obj))
	if err != nil {
		return nil, fmt.Errorf("selector of %s %q: %w", r.resource, obj.GetName(), err)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: r.scale.Replicas(obj)},
		Status: autoscalingv1.ScaleStatus{Replicas: r.scale.StatusReplicas(obj), Selector: selector.String()},
	}, nil
}

// scaledInfo translates the update of a scale to one of the object.
//
//upstream:pkg/registry/apps/deployment/storage.scaleUpdatedObjectInfo
type scaledInfo struct {
	rest.UpdatedObjectInfo
	rest *scaleREST
}

// UpdatedObject applies the update to the scale of the old object, and the result to the object.
//
//upstream:pkg/apis/autoscaling/validation.ValidateScale
//upstream:pkg/apis/autoscaling/v1.Validate_Scale
func (i *scaledInfo) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject().(Object)
	before, err := i.rest.of(obj)
	if err != nil {
		return nil, err
	}
	version := i.rest.kind.GroupVersion()
	owners := managedfields.NewScaleHandler(obj.GetManagedFields(), version,
		managedfields.ResourcePathMappings{version.String(): fieldpath.MakePathOrDie("spec", "replicas")})
	if before.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	changed, err := i.UpdatedObjectInfo.UpdatedObject(ctx, before)
	if err != nil {
		return nil, err
	}
	scale, ok := changed.(*autoscalingv1.Scale)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("expected a Scale, got %T", changed))
	}
	if scale.Spec.Replicas < 0 {
		return nil, errors.NewInvalid(scaleKind.GroupKind(), scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")})
	}
	if scale.ResourceVersion != "" {
		obj.SetResourceVersion(scale.ResourceVersion)
	}
	if scale.UID != "" {
		obj.SetUID(scale.UID)
	}
	i.rest.scale.SetReplicas(obj, scale.Spec.Replicas)
	kept, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(kept)
	return obj, nil
}
