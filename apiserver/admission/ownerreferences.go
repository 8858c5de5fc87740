package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// ownerReferences allows changes of an object's owner references only to users who may delete the object, and
// blockOwnerDeletion only to users who may set the finalizers of the owner.
//
//upstream:plugin/pkg/admission/gc.gcPermissionsEnforcement
type ownerReferences struct {
	*admission.Handler
	environment Environment
}

var _ admission.ValidationInterface = ownerReferences{}

func newOwnerReferences(e Environment) admission.Interface {
	return ownerReferences{admission.NewHandler(admission.Create, admission.Update), e}
}

// Validate implements [admission.ValidationInterface].
func (o ownerReferences) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == "status" {
		return nil
	}
	owners, old := ownersOf(a.GetObject()), ownersOf(a.GetOldObject())
	if len(owners) == len(old) && (len(owners) == 0 || apiequality.Semantic.DeepEqual(owners, old)) {
		return nil
	}
	if a.GetOperation() != admission.Create {
		decision, reason, err := o.environment.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: "delete", Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
			APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version, Resource: a.GetResource().Resource,
			Subresource: a.GetSubresource(),
		})
		if decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
		}
	}
	return o.validateBlocking(ctx, a, newlyBlocking(owners, old))
}

// validateBlocking checks that the user may set the finalizers of all owners.
func (o ownerReferences) validateBlocking(ctx context.Context, a admission.Attributes, owners []metav1.OwnerReference) error {
	if len(owners) == 0 {
		return nil
	}
	finalizers := authorizer.AttributesRecord{User: a.GetUserInfo(), Verb: "update", Subresource: "finalizers",
		APIGroup: "*", APIVersion: "*", Resource: "*", Name: "*", ResourceRequest: true}
	if decision, _, _ := o.environment.Authorizer.Authorize(ctx, finalizers); decision == authorizer.DecisionAllow {
		return nil
	}
	for _, owner := range owners {
		gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		kind, ok := o.environment.Kind(gvk)
		if !ok {
			return admission.NewForbidden(a, fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w",
				owner.APIVersion, owner.Kind, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}))
		}
		finalizers.APIGroup, finalizers.APIVersion, finalizers.Resource = kind.Resource.Group, kind.Resource.Version, kind.Resource.Resource
		finalizers.Name, finalizers.Namespace = owner.Name, ""
		if kind.Namespaced {
			finalizers.Namespace = a.GetNamespace()
		}
		if decision, reason, err := o.environment.Authorizer.Authorize(ctx, finalizers); decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a, fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err))
		}
	}
	return nil
}

func ownersOf(obj runtime.Object) []metav1.OwnerReference {
	if obj == nil {
		return nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return m.GetOwnerReferences()
}

// newlyBlocking returns the owners with a new blockOwnerDeletion.
//
//upstream:plugin/pkg/admission/gc.newBlockingOwnerDeletionRefs
func newlyBlocking(owners, old []metav1.OwnerReference) (added []metav1.OwnerReference) {
	blocked := map[any]bool{}
	for _, o := range old {
		blocked[o.UID] = o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion
	}
	for _, o := range owners {
		if o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion && !blocked[o.UID] {
			added = append(added, o)
		}
	}
	return added
}
