// Package discovery describes the kinds of the discovery.k8s.io API group.
package discovery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// EndpointSlices describes the kind EndpointSlice.
//
//upstream:pkg/registry/discovery/endpointslice.endpointSliceStrategy
//upstream:pkg/apis/discovery/v1.SetDefaults_EndpointPort
//upstream:pkg/apis/discovery/validation.ValidateEndpointSliceUpdate
//upstream:pkg/printers/internalversion.printEndpointSlice
func EndpointSlices() kinds.Kind {
	return kinds.Of[*discoveryv1.EndpointSlice]{
		Type: &discoveryv1.EndpointSlice{}, List: &discoveryv1.EndpointSliceList{},
		Plural: "endpointslices", Generation: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(s *discoveryv1.EndpointSlice) {
			for i := range s.Ports {
				fieldrules.DefaultPointer(&s.Ports[i].Name, "")
				fieldrules.DefaultPointer(&s.Ports[i].Protocol, corev1.ProtocolTCP)
			}
		},
		Prepare:        prepareEndpointSlice,
		Warnings:       endpointSliceWarnings,
		ValidateCreate: func(s *discoveryv1.EndpointSlice) field.ErrorList { return validateEndpointSlice(s, nil) },
		ValidateUpdate: validateEndpointSlice,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("AddressType", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
			columns.Column("Ports", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"]),
			columns.Column("Endpoints", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"]),
		},
		Row: endpointSliceRow,
	}
}

// prepareEndpointSlice counts changes of labels as generations, and drops the deprecated topology of new endpoints. A
// change of that topology alone counts too.
//
//upstream:pkg/registry/discovery/endpointslice.endpointSliceStrategy.PrepareForUpdate
//upstream:pkg/registry/discovery/endpointslice.dropTopologyOnV1
func prepareEndpointSlice(_ context.Context, s, old *discoveryv1.EndpointSlice) {
	sameEndpoints := old != nil && equality.Semantic(s.Endpoints, old.Endpoints)
	if old != nil && (!sameEndpoints || !maps.Equal(s.Labels, old.Labels)) {
		s.SetGeneration(old.GetGeneration() + 1)
	}
	if sameEndpoints {
		return
	}
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

// endpointSliceWarnings warns about FQDNs, and about addresses that are not canonical, unless a controller of Kubernetes copied these.
//
//upstream:pkg/registry/discovery/endpointslice.endpointSliceStrategy.WarningsOnCreate
//upstream:pkg/registry/discovery/endpointslice.endpointSliceStrategy.WarningsOnUpdate
//upstream:pkg/registry/discovery/endpointslice.warnOnDeprecatedAddressType
//upstream:pkg/registry/discovery/endpointslice.warnOnBadIPs
func endpointSliceWarnings(s, old *discoveryv1.EndpointSlice) []string {
	var warnings []string
	if s.AddressType == discoveryv1.AddressTypeFQDN && old == nil {
		warnings = append(warnings, "spec.addressType: FQDN endpoints are deprecated")
	}
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return warnings
	}
	for i := range s.Endpoints {
		for j, address := range s.Endpoints[i].Addresses {
			at := field.NewPath("endpoints").Index(i).Child("addresses").Index(j)
			warnings = append(warnings, validation.GetWarningsForIP(at, address)...)
		}
	}
	return warnings
}

// Limits of an endpoint slice.
const (
	maxSliceEndpoints = 1000
	maxSlicePorts     = 20000
	maxSliceAddresses = 100
	maxZoneHints      = 8
	maxNodeHints      = 8
)

// validateEndpointSlice checks a slice. The old one is nil on create.
//
//upstream:pkg/apis/discovery/validation.ValidateEndpointSlice
//upstream:pkg/apis/discovery/validation.validateAddressType
func validateEndpointSlice(s, old *discoveryv1.EndpointSlice) (errs field.ErrorList) {
	object := check.Object(&errs)
	check.OneOf(object.Child("addressType"), s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	slicePorts(object.Child("ports"), s.Ports)
	if old != nil {
		check.ImmutableWithoutValue(object.Child("addressType"), s.AddressType, old.AddressType)
	}
	// Stored endpoints may be from before a rule.
	if old == nil || !equality.Semantic(s.Endpoints, old.Endpoints) {
		endpoints(object.Child("endpoints"), s)
	}
	return errs
}

//upstream:pkg/apis/discovery/validation.validateEndpoints
func endpoints(list check.Field, s *discoveryv1.EndpointSlice) {
	if n := len(s.Endpoints); n > maxSliceEndpoints {
		list.TooMany(n, maxSliceEndpoints)
		return
	}
	for i := range s.Endpoints {
		e, at := &s.Endpoints[i], list.Index(i)
		addresses := at.Child("addresses")
		switch n := len(e.Addresses); {
		case n == 0:
			addresses.Required("")
		case n > maxSliceAddresses:
			addresses.TooMany(n, maxSliceAddresses)
		}
		for j, a := range e.Addresses {
			sliceAddress(addresses, j, a, s.AddressType)
		}
		if e.Hostname != nil {
			check.Valid(at.Child("hostname"), *e.Hostname, validation.IsDNS1123Label)
		}
		check.Optional(at.Child("nodeName"), e.NodeName, check.DNSName)
		if h := at.Child("hints"); e.Hints != nil {
			hints(h.Child("forZones"), e.Hints.ForZones, maxZoneHints, zoneName)
			hints(h.Child("forNodes"), e.Hints.ForNodes, maxNodeHints, check.DNSName)
		}
	}
}

// hints checks one field of the hints: the zones or nodes that should use an endpoint.
//
//upstream:pkg/apis/discovery/validation.validateHints
func hints[T discoveryv1.ForZone | discoveryv1.ForNode](list check.Field, targets []T, most int, rule func(check.Field, string)) {
	if n := len(targets); n > most {
		list.TooMany(n, most)
		return
	}
	var seen fieldrules.Seen[T]
	for i, target := range targets {
		name, at := discoveryv1.ForZone(target).Name, list.Index(i).Child("name")
		if !seen.Add(target) {
			at.Duplicate(name)
		}
		rule(at, name)
	}
}

// zoneName checks the name of a zone, which is the value of a label.
func zoneName(at check.Field, name string) { check.Valid(at, name, validation.IsValidLabelValue) }

// sliceAddress checks the address at an index of the list. An address of an unknown type is valid here.
//
//upstream:pkg/apis/discovery/validation.validateEndpoints
func sliceAddress(list check.Field, i int, a string, t discoveryv1.AddressType) {
	at := list.Index(i)
	var errs field.ErrorList
	switch t {
	case discoveryv1.AddressTypeFQDN:
		errs = validation.IsFullyQualifiedDomainName(at.Path.Field(), a)
	case discoveryv1.AddressTypeIPv4:
		errs = validation.IsValidIPForLegacyField(at.Path.Field(), a, true, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(at.Path.Field(), a)
	}
	at.Report(errs...)
	if len(errs) > 0 || t != discoveryv1.AddressTypeIPv4 && t != discoveryv1.AddressTypeIPv6 {
		return
	}
	ip, err := netip.ParseAddr(a)
	if err != nil {
		return
	}
	if ip.Is4() != (t == discoveryv1.AddressTypeIPv4) {
		list.Invalidf(a, "must be an %s address", t)
	}
	at.Report(fieldrules.PublicIP(ip, a, &at.Path, "")...)
}

// slicePorts checks the ports of a slice, and that their names are unique.
//
//upstream:pkg/apis/discovery/validation.validatePorts
func slicePorts(list check.Field, ports []discoveryv1.EndpointPort) {
	if n := len(ports); n > maxSlicePorts {
		list.TooMany(n, maxSlicePorts)
	}
	var seen fieldrules.Seen[string]
	for i := range ports {
		p, at := &ports[i], list.Index(i)
		name := columns.OrEmpty(p.Name)
		check.IfSet(at.Child("name"), name, check.DNSLabel)
		if !seen.Add(name) {
			at.Child("name").Duplicate(name)
		}
		if p.Protocol == nil {
			at.Child("protocol").Required("")
		}
		check.OptionalOneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		check.Optional(at.Child("appProtocol"), p.AppProtocol, check.QualifiedName)
	}
}

//upstream:pkg/printers/internalversion.printEndpointSlice
//upstream:pkg/printers/internalversion.formatDiscoveryPorts
func endpointSliceRow(s *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, fieldrules.Decimal(*p.Port))
		case p.Name != nil:
			ports = append(ports, *p.Name)
		default:
			ports = append(ports, "*")
		}
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return []any{string(s.AddressType), shorten(ports), shorten(addresses)}
}

// shorten joins the first elements of a list and counts the others.
//
//upstream:pkg/printers/internalversion.listWithMoreString
func shorten(list []string) string {
	if more := len(list) - core.MaxEndpointCell; more > 0 {
		return strings.Join(list[:core.MaxEndpointCell], ",") + fmt.Sprintf(" + %d more...", more)
	}
	return cmp.Or(strings.Join(list, ","), "<unset>")
}
