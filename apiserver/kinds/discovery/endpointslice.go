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
		Validate:       validateEndpointSlice,
		Prepare:        prepareEndpointSlice,
		Warnings:       endpointSliceWarnings,
		ValidateCreate: endpoints,
		ValidateUpdate: func(s, old *discoveryv1.EndpointSlice) field.ErrorList {
			errs := fieldrules.ImmutableUnquoted(s.AddressType, old.AddressType, &fieldrules.Root, "addressType")
			// Stored endpoints may be from before a rule.
			if equality.Semantic(s.Endpoints, old.Endpoints) {
				return errs
			}
			return append(errs, endpoints(s)...)
		},
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

// validateEndpointSlice checks the type and the ports of a slice.
//
//upstream:pkg/apis/discovery/validation.ValidateEndpointSlice
//upstream:pkg/apis/discovery/validation.validateAddressType
func validateEndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList {
	types := []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
		discoveryv1.AddressTypeFQDN}
	return append(fieldrules.OneOf(s.AddressType, &fieldrules.Root, "addressType", types...), slicePorts(s.Ports)...)
}

//upstream:pkg/apis/discovery/validation.validateEndpoints
func endpoints(s *discoveryv1.EndpointSlice) field.ErrorList {
	list := fieldrules.Root.Child("endpoints")
	if n := len(s.Endpoints); n > maxSliceEndpoints {
		return field.ErrorList{field.TooMany(list.Field(), n, maxSliceEndpoints)}
	}
	var errs field.ErrorList
	for i := range s.Endpoints {
		e, at := &s.Endpoints[i], list.Index(i)
		addresses := at.Child("addresses")
		if n := len(e.Addresses); n == 0 {
			errs = append(errs, field.Required(addresses.Field(), ""))
		} else if n > maxSliceAddresses {
			errs = append(errs, field.TooMany(addresses.Field(), n, maxSliceAddresses))
		}
		for j, a := range e.Addresses {
			errs = append(errs, sliceAddress(a, s.AddressType, &addresses, j)...)
		}
		if e.Hostname != nil {
			errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Label(*e.Hostname), *e.Hostname, &at, "hostname")...)
		}
		if e.NodeName != nil {
			errs = append(errs, fieldrules.DNSName(*e.NodeName, &at, "nodeName")...)
		}
		if e.Hints != nil {
			in := at.Child("hints")
			errs = append(errs, hints(e.Hints.ForZones, &in, "forZones", maxZoneHints, zoneName)...)
			errs = append(errs, hints(e.Hints.ForNodes, &in, "forNodes", maxNodeHints, nodeName)...)
		}
	}
	return errs
}

// hints checks one field of the hints: the zones or nodes that should use an endpoint.
//
//upstream:pkg/apis/discovery/validation.validateHints
func hints[T discoveryv1.ForZone | discoveryv1.ForNode](targets []T, at *fieldrules.Path, name string, most int,
	check func(name string, at *fieldrules.Path) field.ErrorList) field.ErrorList {
	list := at.Child(name)
	if n := len(targets); n > most {
		return field.ErrorList{field.TooMany(list.Field(), n, most)}
	}
	var errs field.ErrorList
	var seen fieldrules.Seen[T]
	for i, target := range targets {
		name, at := discoveryv1.ForZone(target).Name, list.Index(i)
		if !seen.Add(target) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), name))
		}
		errs = append(errs, check(name, &at)...)
	}
	return errs
}

// zoneName checks the name of a zone, which is the value of a label.
func zoneName(name string, at *fieldrules.Path) field.ErrorList {
	return fieldrules.Invalid(validation.IsValidLabelValue(name), name, at, "name")
}

func nodeName(name string, at *fieldrules.Path) field.ErrorList {
	return fieldrules.DNSName(name, at, "name")
}

// sliceAddress checks the address at an index of the list. An address of an unknown type is valid here.
//
//upstream:pkg/apis/discovery/validation.validateEndpoints
func sliceAddress(a string, t discoveryv1.AddressType, list *fieldrules.Path, i int) field.ErrorList {
	at := list.Index(i)
	var errs field.ErrorList
	switch t {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(at.Field(), a)
	case discoveryv1.AddressTypeIPv4:
		errs = validation.IsValidIPForLegacyField(at.Field(), a, true, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(at.Field(), a)
	default:
		return nil
	}
	ip, err := netip.ParseAddr(a)
	if len(errs) > 0 || err != nil {
		return errs
	}
	if ip.Is4() != (t == discoveryv1.AddressTypeIPv4) {
		errs = append(errs, field.Invalid(list.Field(), a, fmt.Sprintf("must be an %s address", t)))
	}
	return append(errs, fieldrules.PublicIP(ip, a, &at, "")...)
}

// slicePorts checks the ports of a slice, and that their names are unique.
//
//upstream:pkg/apis/discovery/validation.validatePorts
func slicePorts(ports []discoveryv1.EndpointPort) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Root.Child("ports")
	if n := len(ports); n > maxSlicePorts {
		errs = append(errs, field.TooMany(list.Field(), n, maxSlicePorts))
	}
	var seen fieldrules.Seen[string]
	for i := range ports {
		p, at := &ports[i], list.Index(i)
		name := columns.OrEmpty(p.Name)
		if name != "" {
			errs = append(errs, fieldrules.DNSLabel(name, &at, "name")...)
		}
		if !seen.Add(name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), name))
		}
		if p.Protocol == nil {
			errs = append(errs, field.Required(at.ChildField("protocol"), ""))
		}
		errs = append(errs, fieldrules.OptionalOneOf(p.Protocol, &at, "protocol", corev1.ProtocolTCP,
			corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if p.AppProtocol != nil {
			errs = append(errs, fieldrules.QualifiedName(*p.AppProtocol, &at, "appProtocol")...)
		}
	}
	return errs
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
