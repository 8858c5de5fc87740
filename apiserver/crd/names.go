package crd

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/util/webhook"
)

// names are the names in use in one group. Plurals, singulars and short names share one namespace, kinds and list kinds
// another.
type names struct {
	resources sets.Set[string]
	kinds     sets.Set[string]
}

func noNames() names { return names{resources: sets.New[string](), kinds: sets.New[string]()} }

func (n names) add(accepted apiextensions.CustomResourceDefinitionNames) {
	n.resources.Insert(accepted.Plural, accepted.Singular)
	n.resources.Insert(accepted.ShortNames...)
	n.kinds.Insert(accepted.Kind, accepted.ListKind)
}

// updateStatus accepts the names in a definition's spec that it already has or that are free, and sets its conditions.
// A definition becomes established when all its names are accepted and its conversion webhook has a valid
// configuration, and stays established.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.strategy.PrepareForCreate
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.sync
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/establish.EstablishingController.sync
func updateStatus(crd *apiextensions.CustomResourceDefinition, taken names) {
	accepted, conflict := accept(crd.Spec.Names, crd.Status.AcceptedNames, taken)
	crd.Status.AcceptedNames = accepted
	if conflict == nil {
		setCondition(crd, apiextensions.NamesAccepted, apiextensions.ConditionTrue, "NoConflicts", "no conflicts found")
		switch {
		case established(crd):
		case hasInvalidCABundle(crd):
			setCondition(crd, apiextensions.Established, apiextensions.ConditionFalse, "InvalidCABundle",
				"The conversion webhook CABundle is invalid")
		default:
			setCondition(crd, apiextensions.Established, apiextensions.ConditionTrue, "InitialNamesAccepted",
				"the initial names have been accepted")
		}
	} else {
		setCondition(crd, apiextensions.NamesAccepted, apiextensions.ConditionFalse, conflict.reason, conflict.message)
		if apiextensions.FindCRDCondition(crd, apiextensions.Established) == nil {
			setCondition(crd, apiextensions.Established, apiextensions.ConditionFalse, "NotAccepted",
				"not all names are accepted")
		}
	}
	approve(crd)
}

// hasInvalidCABundle reports whether a definition has a conversion webhook with an invalid CA bundle. Validation
// rejects the bundle only once the definition is established.
func hasInvalidCABundle(crd *apiextensions.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.WebhookClientConfig != nil &&
		len(webhook.ValidateCABundle(nil, c.WebhookClientConfig.CABundle)) > 0
}

// conflict is the reason and the message of the condition NamesAccepted for a name that is not accepted.
type conflict struct{ reason, message string }

// accept returns the accepted names: for each name, the wanted one if it is free, and the held one otherwise. It also
// returns the last conflict, or nil.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.calculateNamesAndConditions
func accept(want, held apiextensions.CustomResourceDefinitionNames,
	taken names) (apiextensions.CustomResourceDefinitionNames, *conflict) {
	var last *conflict
	claim := func(want string, held *string, taken sets.Set[string], reason string) {
		switch {
		case want == *held:
		case taken.Has(want):
			last = &conflict{reason, inUse(want).Error()}
		default:
			*held = want
		}
	}
	claim(want.Plural, &held.Plural, taken.resources, "PluralConflict")
	claim(want.Singular, &held.Singular, taken.resources, "SingularConflict")
	var errs []error
	for _, short := range want.ShortNames {
		if taken.resources.Has(short) && !slices.Contains(held.ShortNames, short) {
			errs = append(errs, inUse(short))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		last = &conflict{"ShortNamesConflict", err.Error()}
	} else {
		held.ShortNames = want.ShortNames
	}
	claim(want.Kind, &held.Kind, taken.kinds, "KindConflict")
	claim(want.ListKind, &held.ListKind, taken.kinds, "ListKindConflict")
	held.Categories = want.Categories
	return held, last
}

//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.equalToAcceptedOrFresh
func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

// approve sets the condition KubernetesAPIApprovalPolicyConformant of a definition in a protected group.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/apiapproval.calculateCondition
func approve(crd *apiextensions.CustomResourceDefinition) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	status, reason := apiextensions.ConditionFalse, "MissingAnnotation"
	state, message := apihelpers.GetAPIApprovalState(crd.Annotations)
	switch state {
	case apihelpers.APIApproved:
		status, reason = apiextensions.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalInvalid:
		reason = "InvalidAnnotation"
	}
	setCondition(crd, apiextensions.KubernetesAPIApprovalPolicyConformant, status, reason, message)
}

// setCondition sets a condition. It changes the transition time only with the status.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apihelpers.SetCRDCondition
func setCondition(crd *apiextensions.CustomResourceDefinition, kind apiextensions.CustomResourceDefinitionConditionType,
	status apiextensions.ConditionStatus, reason, message string) {
	c := apiextensions.FindCRDCondition(crd, kind)
	if c == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, apiextensions.CustomResourceDefinitionCondition{Type: kind})
		c = &crd.Status.Conditions[len(crd.Status.Conditions)-1]
	}
	if c.Status != status || c.LastTransitionTime.IsZero() {
		// The stored format has whole seconds.
		c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

// sameService reports whether two states of one definition are served in the same way.
func sameService(a, b *apiextensions.CustomResourceDefinition) bool {
	return a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Status.AcceptedNames, b.Status.AcceptedNames) &&
		established(a) == established(b)
}

// namesAccepted reports whether all names in a definition's spec are accepted.
func namesAccepted(crd *apiextensions.CustomResourceDefinition) bool {
	return apiextensions.IsCRDConditionTrue(crd, apiextensions.NamesAccepted)
}

func established(crd *apiextensions.CustomResourceDefinition) bool {
	return apiextensions.IsCRDConditionTrue(crd, apiextensions.Established)
}

// terminating reports whether a definition waits for the deletion of its resources.
func terminating(crd *apiextensions.CustomResourceDefinition) bool {
	return crd.DeletionTimestamp != nil && apiextensions.CRDHasFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer)
}
