package kinds

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func endpointSlices() Kind {
	return Of[*discoveryv1.EndpointSlice]{
		Type: &discoveryv1.EndpointSlice{}, List: &discoveryv1.EndpointSliceList{},
		Plural: "endpointslices", Generation: true,
		Name: subdomain,
		Default: func(s *discoveryv1.EndpointSlice) {
			for i := range s.Ports {
				orElse(&s.Ports[i].Name, "")
				orElse(&s.Ports[i].Protocol, corev1.ProtocolTCP)
			}
		},
		Validate: validateEndpointSlice,
		ValidateUpdate: func(s, old *discoveryv1.EndpointSlice) field.ErrorList {
			return unchanged(s.AddressType, old.AddressType, &root, "addressType")
		},
		Columns: []metav1.TableColumnDefinition{
			column("AddressType", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
			column("Ports", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"]),
			column("Endpoints", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"]),
		},
		Row: endpointSliceRow,
	}
}

// Limits of an endpoint slice.
const (
	maxSliceEndpoints = 1000
	maxSlicePorts     = 20000
	maxSliceAddresses = 100
)

func validateEndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList {
	types := []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN}
	errs := oneOf(s.AddressType, &root, "addressType", types...)
	list := root.at("endpoints")
	if n := len(s.Endpoints); n > maxSliceEndpoints {
		errs = append(errs, field.TooMany(list.path(), n, maxSliceEndpoints))
	}
	for i := range s.Endpoints {
		e, at := &s.Endpoints[i], list.item(i)
		addresses := at.at("addresses")
		if n := len(e.Addresses); n == 0 {
			errs = append(errs, field.Required(addresses.path(), "must contain at least 1 address"))
		} else if n > maxSliceAddresses {
			errs = append(errs, field.TooMany(addresses.path(), n, maxSliceAddresses))
		}
		for j, a := range e.Addresses {
			item := addresses.item(j)
			errs = append(errs, sliceAddress(a, s.AddressType, &item)...)
		}
		if e.Hostname != nil {
			errs = append(errs, dnsLabel(*e.Hostname, &at, "hostname")...)
		}
		if e.NodeName != nil {
			errs = append(errs, dnsName(*e.NodeName, &at, "nodeName")...)
		}
	}
	return append(errs, slicePorts(s.Ports)...)
}

func sliceAddress(a string, t discoveryv1.AddressType, w *where) field.ErrorList {
	if t == discoveryv1.AddressTypeFQDN {
		return validation.IsFullyQualifiedDomainName(w.path(), a)
	}
	errs := validation.IsValidIPForLegacyField(w.path(), a, false, nil)
	ip, err := netip.ParseAddr(a)
	if err != nil {
		return errs
	}
	if ip.Is4() != (t == discoveryv1.AddressTypeIPv4) {
		return append(errs, field.Invalid(w.path(), a, fmt.Sprintf("must be an %s address", t)))
	}
	return append(errs, publicIP(ip, a, w, "")...)
}

func slicePorts(ports []discoveryv1.EndpointPort) field.ErrorList {
	var errs field.ErrorList
	list := root.at("ports")
	if n := len(ports); n > maxSlicePorts {
		errs = append(errs, field.TooMany(list.path(), n, maxSlicePorts))
	}
	for i := range ports {
		p, at := &ports[i], list.item(i)
		name := orEmpty(p.Name)
		if name != "" {
			errs = append(errs, dnsLabel(name, &at, "name")...)
		}
		if slices.ContainsFunc(ports[:i], func(o discoveryv1.EndpointPort) bool { return orEmpty(o.Name) == name }) {
			errs = append(errs, field.Duplicate(at.of("name"), name))
		}
		if p.Protocol == nil {
			errs = append(errs, field.Required(at.of("protocol"), ""))
		}
		errs = append(errs, oneOfIf(p.Protocol, &at, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if p.AppProtocol != nil {
			errs = append(errs, qualified(*p.AppProtocol, &at, "appProtocol")...)
		}
	}
	return errs
}

func endpointSliceRow(s *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, decimal(*p.Port))
		case orEmpty(p.Name) != "":
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

// shorten joins the first few of a list.
func shorten(list []string) string {
	if len(list) == 0 {
		return "<unset>"
	}
	if more := len(list) - maxEndpointCell; more > 0 {
		return strings.Join(list[:maxEndpointCell], ",") + fmt.Sprintf(" + %d more...", more)
	}
	return strings.Join(list, ",")
}
