package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/core"
)

// IPAddresses describes the kind IPAddress.
//
//upstream:pkg/registry/networking/ipaddress.ipAddressStrategy
//upstream:pkg/apis/networking/validation.ValidateIPAddressUpdate
//upstream:pkg/printers/internalversion.printIPAddress
//upstream:pkg/registry/networking/ipaddress/storage.REST.ShortNames
func IPAddresses(addresses *core.Addresses) kinds.Kind {
	return kinds.Of[*networkingv1.IPAddress]{
		Type: &networkingv1.IPAddress{}, List: &networkingv1.IPAddressList{},
		Plural: "ipaddresses", ShortNames: []string{"ip"}, Cluster: true,
		Name:     nameIsIP,
		Validate: parentReference,
		ValidateUpdate: func(a, old *networkingv1.IPAddress) (errs field.ErrorList) {
			check.ImmutableWithoutValue(check.Object(&errs).Child("spec").Child("parentRef"), a.Spec.ParentRef, old.Spec.ParentRef)
			return errs
		},
		Allocator: func(s kinds.Stored[*networkingv1.IPAddress]) kinds.ResourceAllocator[*networkingv1.IPAddress] {
			addresses.IPs = s
			return addresses
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("ParentRef", "string", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
		},
		Row: func(a *networkingv1.IPAddress) []any { return []any{a.Name, parentCell(a.Spec.ParentRef)} },
	}
}

// nameIsIP is the rule for names that are IP addresses in canonical form.
//
//upstream:pkg/apis/networking/validation.ValidateIPAddressName
func nameIsIP(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

// parentReference checks the reference to the owner of the address. The group of the core resources is empty.
//
//upstream:pkg/apis/networking/validation.validateIPAddressParentReference
func parentReference(a *networkingv1.IPAddress) (errs field.ErrorList) {
	at, r := check.Object(&errs).Child("spec").Child("parentRef"), a.Spec.ParentRef
	if r == nil {
		at.Required("")
		return errs
	}
	check.IfSet(at.Child("group"), r.Group, check.DNSName)
	namedSegment(at.Child("resource"), r.Resource)
	namedSegment(at.Child("name"), r.Name)
	check.IfSet(at.Child("namespace"), r.Namespace, namedSegment)
	return errs
}

// parentCell returns resource.group/namespace/name without its empty parts.
//
//upstream:pkg/printers/internalversion.printIPAddress
func parentCell(r *networkingv1.ParentReference) string {
	if r == nil {
		return columns.None
	}
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	parts := []string{strings.ToLower(resource)}
	if r.Namespace != "" {
		parts = append(parts, r.Namespace)
	}
	return strings.Join(append(parts, r.Name), "/")
}
