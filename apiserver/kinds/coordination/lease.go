// Package coordination describes the kinds of the coordination.k8s.io API group.
package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Leases describes the kind Lease.
//
//upstream:pkg/registry/coordination/lease.leaseStrategy
//upstream:pkg/printers/internalversion.printLease
func Leases() kinds.Kind {
	return kinds.Of[*coordinationv1.Lease]{
		Type: &coordinationv1.Lease{}, List: &coordinationv1.LeaseList{},
		Plural: "leases", Name: fieldrules.NameIsSubdomain, CreateOnUpdate: true, NoUnconditionalUpdate: true,
		AnyFinalizers: true,
		Prepare:       dropLeaderElection,
		Validate:      validateLease,
		Columns: []metav1.TableColumnDefinition{columns.Column("Holder", "string",
			coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"])},
		Row: func(l *coordinationv1.Lease) []any {
			if h := l.Spec.HolderIdentity; h != nil {
				return []any{*h}
			}
			return []any{""}
		},
	}
}

// dropLeaderElection drops the fields of the feature gate CoordinatedLeaderElection, which is off by default, unless
// the lease has them already.
//
//upstream:pkg/registry/coordination/lease.leaseStrategy.PrepareForCreate
//upstream:pkg/registry/coordination/lease.leaseStrategy.PrepareForUpdate
func dropLeaderElection(_ context.Context, l, old *coordinationv1.Lease) {
	if old == nil || old.Spec.Strategy == nil && old.Spec.PreferredHolder == nil {
		l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
	}
}

//upstream:pkg/apis/coordination/validation.ValidateLeaseSpec
func validateLease(l *coordinationv1.Lease) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &l.Spec
	if d := s.LeaseDurationSeconds; d != nil && *d <= 0 {
		spec.Child("leaseDurationSeconds").Invalid(*d, "must be greater than 0")
	}
	check.NonNegative(spec.Child("leaseTransitions"), s.LeaseTransitions)
	check.Forbid(spec.Child("preferredHolder"),
		s.PreferredHolder != nil && *s.PreferredHolder != "" && (s.Strategy == nil || *s.Strategy == ""),
		"may only be specified if `strategy` is defined")
	return errs
}
