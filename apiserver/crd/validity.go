package crd

import (
	"context"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// validity recognizes valid resources of one version. A resource that it does not recognize may be valid, too: the
// strategies of apiextensions-apiserver decide, and make the errors.
type validity struct {
	kind       schema.GroupVersionKind
	namespaced bool
	scale      *apiextensions.CustomResourceSubresourceScale
	schema     *structural.Structural
	whole      *compiledSchema
	status     *compiledSchema // nil if the schema has no status
	lists      bool            // the schema has sets or maps that are lists
}

// validityOf returns the validity of a version, or nil if its schema has rules or embedded resources.
func validityOf(v validity) *validity {
	if has(v.schema, func(s *structural.Structural) bool { return s.XEmbeddedResource || len(s.XValidations) > 0 }) {
		return nil
	}
	v.lists = has(v.schema, func(s *structural.Structural) bool { return s.XListType != nil && *s.XListType != "atomic" })
	return &v
}

// has reports whether a schema, or one within it, has a property.
func has(s *structural.Structural, property func(*structural.Structural) bool) bool {
	if s == nil {
		return false
	}
	if property(s) || has(s.Items, property) {
		return true
	}
	for _, inner := range s.Properties {
		if has(&inner, property) {
			return true
		}
	}
	return s.AdditionalProperties != nil && has(s.AdditionalProperties.Structural, property)
}

// creates reports whether the creation of an object is valid.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceStrategy.Validate
func (v *validity) creates(ctx context.Context, obj runtime.Object) bool {
	if v == nil {
		return false
	}
	u, ok := obj.(*unstructured.Unstructured)
	return ok && v.isKind(u) && v.acceptsMetadata(ctx, u, nil) && v.whole.accepts(u.Object) &&
		v.acceptsScale(u, true) && v.acceptsLists(u)
}

// updates reports whether an update is valid.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceStrategy.ValidateUpdate
func (v *validity) updates(ctx context.Context, obj, old runtime.Object) bool {
	u, before, ok := v.pair(obj, old)
	return ok && v.acceptsMetadata(ctx, u, before) && v.whole.accepts(u.Object) && v.acceptsScale(u, true) &&
		v.acceptsLists(u)
}

// updatesStatus reports whether an update of the status is valid.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.statusStrategy.ValidateUpdate
func (v *validity) updatesStatus(ctx context.Context, obj, old runtime.Object) bool {
	u, before, ok := v.pair(obj, old)
	if !ok || !v.acceptsMetadata(ctx, u, before) || !v.acceptsScale(u, false) || !v.acceptsLists(u) {
		return false
	}
	status, found := u.Object["status"]
	return !found || v.status == nil || v.status.accepts(status)
}

// pair returns both objects of an update.
func (v *validity) pair(obj, old runtime.Object) (u, before *unstructured.Unstructured, ok bool) {
	if v == nil {
		return nil, nil, false
	}
	if u, ok = obj.(*unstructured.Unstructured); !ok || !v.isKind(u) {
		return nil, nil, false
	}
	before, ok = old.(*unstructured.Unstructured)
	return u, before, ok
}

//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceValidator.ValidateTypeMeta
func (v *validity) isKind(u *unstructured.Unstructured) bool {
	return u.Object["kind"] == v.kind.Kind && u.Object["apiVersion"] == v.kind.Group+"/"+v.kind.Version
}

// acceptsMetadata validates the metadata of a creation, or of an update if old is not nil, with the functions of
// apimachinery. For an update it also runs the validation that applies to all kinds.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceValidator.validateObjectMetaDeclaratively
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceValidator.validateObjectMetaUpdateDeclaratively
func (v *validity) acceptsMetadata(ctx context.Context, u, old *unstructured.Unstructured) bool {
	metadata, ok := decodePlainMetadata(u.Object["metadata"])
	if !ok {
		return false
	}
	op, before := operation.Create, (*metav1.ObjectMeta)(nil)
	var name apivalidation.ValidateNameFunc = apivalidation.NameIsDNSSubdomain
	if old != nil {
		if before, ok = decodePlainIdentity(old.Object["metadata"]); !ok {
			return false
		}
		op, name = operation.Update, nil
		if len(apivalidation.ValidateObjectMeta(metadata, v.namespaced, validatePathSegment, field.NewPath("metadata"))) > 0 {
			return false
		}
	}
	return len(apivalidation.ValidateObjectMetaDeclaratively(ctx, op, metadata, before, v.namespaced, name,
		field.NewPath("metadata"), utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta))) == 0
}

// validatePathSegment validates a name, or the prefix of a name, as a path segment.
//
//upstream:k8s.io/apiserver/pkg/registry/rest.validatePathSegment
func validatePathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// acceptsScale validates the fields that the scale subresource reads. spec says whether to include the fields of the
// spec.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceValidator.ValidateScaleSpec
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceValidator.ValidateScaleStatus
func (v *validity) acceptsScale(u *unstructured.Unstructured, spec bool) bool {
	if v.scale == nil {
		return true
	}
	replicas := func(path string) bool {
		n, _, err := unstructured.NestedInt64(u.Object, fieldNames(path)...)
		return err == nil && n >= 0 && n <= math.MaxInt32
	}
	if spec && !replicas(v.scale.SpecReplicasPath) || !replicas(v.scale.StatusReplicasPath) {
		return false
	}
	if v.scale.LabelSelectorPath == nil {
		return true
	}
	_, _, err := unstructured.NestedString(u.Object, fieldNames(*v.scale.LabelSelectorPath)...)
	return err == nil
}

// fieldNames returns the names in a path like .spec.replicas.
func fieldNames(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

func (v *validity) acceptsLists(u *unstructured.Unstructured) bool {
	return !v.lists || len(listtype.ValidateListSetsAndMaps(nil, v.schema, u.Object)) == 0
}

// observeRatcheting records an update without comparisons in apiextensions-apiserver's ratcheting metric.
func observeRatcheting() {
	if utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CRDValidationRatcheting) {
		validation.Metrics.ObserveRatchetingTime(0)
	}
}
