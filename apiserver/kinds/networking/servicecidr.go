package networking

import (
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ServiceCIDRs describes the kind ServiceCIDR.
//
//upstream:pkg/registry/networking/servicecidr.serviceCIDRStrategy
//upstream:pkg/registry/networking/servicecidr.serviceCIDRStatusStrategy
//upstream:pkg/printers/internalversion.printServiceCIDR
func ServiceCIDRs(addresses *core.Addresses) kinds.Kind {
	return kinds.Of[*networkingv1.ServiceCIDR]{
		Type: &networkingv1.ServiceCIDR{}, List: &networkingv1.ServiceCIDRList{},
		Plural: "servicecidrs", Cluster: true,
		Name: fieldrules.NameIsSubdomain,
		ValidateCreate: func(c *networkingv1.ServiceCIDR) (errs field.ErrorList) {
			serviceCIDRs(check.Object(&errs).Child("spec").Child("cidrs"), c.Spec)
			return errs
		},
		ValidateUpdate: validateServiceCIDRUpdate,
		Status:         true,
		PrepareStatus:  kinds.KeepMetadata[*networkingv1.ServiceCIDR],
		StatusReset:    []string{"metadata"},
		More: func(s kinds.Stored[*networkingv1.ServiceCIDR]) map[string]rest.Storage {
			addresses.CIDRs = s
			return nil
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("CIDRs", "string", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
		},
		Row: func(c *networkingv1.ServiceCIDR) []any { return []any{strings.Join(c.Spec.CIDRs, ",")} },
	}
}

// DefaultServiceCIDR returns the ServiceCIDR of the network of the cluster IPs.
func DefaultServiceCIDR(network netip.Prefix) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{network.String()}},
	}
}

// serviceCIDRs checks that there are one or two networks, at most one of each IP family.
//
//upstream:pkg/apis/networking/validation.validateServiceCIDRSpec
func serviceCIDRs(list check.Field, s networkingv1.ServiceCIDRSpec) {
	switch n := len(s.CIDRs); {
	case n == 0:
		list.Required("at least one CIDR required")
		return
	case n > 2:
		list.Invalid(fieldrules.Internal(s), "may only hold up to 2 values")
		return
	}
	for i, c := range s.CIDRs {
		at := list.Index(i)
		at.Report(validation.IsValidCIDR(at.Path.Field(), c)...)
	}
	if len(s.CIDRs) == 2 {
		family := netutils.IPFamilyOfCIDRString(s.CIDRs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(s.CIDRs[1]) {
			list.Invalid(s.CIDRs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
}

// validateServiceCIDRUpdate checks that an update at most adds a second network.
//
//upstream:pkg/apis/networking/validation.ValidateServiceCIDRUpdate
func validateServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) (errs field.ErrorList) {
	list, is, was := check.Object(&errs).Child("spec").Child("cidrs"), c.Spec.CIDRs, old.Spec.CIDRs
	if len(is) != len(was) && !(len(is) == 2 && len(was) == 1) {
		list.Invalid(is, apivalidation.FieldImmutableErrorMsg)
		return errs
	}
	for i := range was {
		check.Immutable(list.Index(i), is[i], was[i])
	}
	if len(is) > len(was) {
		serviceCIDRs(list, c.Spec)
	}
	return errs
}
