//lint:file-ignore SA1019 The API serves the deprecated kind Endpoints.

package core

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Endpoints describes the kind Endpoints.
//
//upstream:pkg/registry/core/endpoint.endpointsStrategy
//upstream:pkg/registry/core/endpoint/storage.REST.ShortNames
//upstream:pkg/apis/core/v1.SetDefaults_Endpoints
//upstream:pkg/printers/internalversion.printEndpoints
func Endpoints() kinds.Kind {
	return kinds.Of[*corev1.Endpoints]{
		Type: &corev1.Endpoints{}, List: &corev1.EndpointsList{},
		Plural: "endpoints", ShortNames: []string{"ep"}, CreateOnUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				for j := range e.Subsets[i].Ports {
					fieldrules.DefaultValue(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
				}
			}
		},
		ValidateCreate: validateEndpoints,
		ValidateUpdate: func(e, old *corev1.Endpoints) field.ErrorList {
			errs := validateEndpoints(e)
			if len(errs) > 0 && equality.Semantic(e.Subsets, old.Subsets) { // the rules were not always as strict
				return nil
			}
			return errs
		},
		Warnings: endpointsWarnings,
		Columns: []metav1.TableColumnDefinition{columns.Column("Endpoints", "string",
			corev1.Endpoints{}.SwaggerDoc()["subsets"])},
		Row: func(e *corev1.Endpoints) []any { return []any{endpointCell(e)} },
	}
}

// validateEndpoints checks the addresses and the ports of each subset.
//
//upstream:pkg/apis/core/validation.ValidateEndpoints
//upstream:pkg/apis/core/validation.validateEndpointSubsets
//upstream:pkg/apis/core/validation.validateEndpointPort
func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Root.Child("subsets")
	for i := range e.Subsets {
		s, at := &e.Subsets[i], list.Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at.Field(), "must specify `addresses` or `notReadyAddresses`"))
		}
		ready, notReady := at.Child("addresses"), at.Child("notReadyAddresses")
		errs = append(errs, endpointAddresses(s.Addresses, &ready)...)
		errs = append(errs, endpointAddresses(s.NotReadyAddresses, &notReady)...)
		ports := at.Child("ports")
		for j, p := range s.Ports {
			item := ports.Index(j)
			switch {
			case p.Name == "" && len(s.Ports) > 1:
				errs = append(errs, field.Required(item.ChildField("name"), ""))
			case p.Name != "":
				errs = append(errs, fieldrules.DNSLabel(p.Name, &item, "name")...)
			}
			errs = append(errs, fieldrules.Port(p.Port, &item, "port")...)
			errs = append(errs, fieldrules.OneOf(p.Protocol, &item, "protocol", corev1.ProtocolTCP,
				corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
			if p.AppProtocol != nil {
				errs = append(errs, fieldrules.QualifiedName(*p.AppProtocol, &item, "appProtocol")...)
			}
		}
	}
	return errs
}

// endpointAddresses checks the addresses of a subset.
//
//upstream:pkg/apis/core/validation.validateEndpointAddress
//upstream:pkg/apis/core/validation.ValidateEndpointIP
func endpointAddresses(list []corev1.EndpointAddress, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range list {
		at := fldPath.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.ChildField("ip"), a.IP, true, nil)...)
		if ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(a.IP)); ok {
			errs = append(errs, fieldrules.PublicIP(ip.Unmap(), a.IP, &at, "ip")...)
		} else {
			errs = append(errs, field.Invalid(at.ChildField("ip"), a.IP, "must be a valid IP address"))
		}
		if a.Hostname != "" {
			errs = append(errs, fieldrules.DNSLabel(a.Hostname, &at, "hostname")...)
		}
		if a.NodeName != nil {
			errs = append(errs, fieldrules.DNSName(*a.NodeName, &at, "nodeName")...)
		}
	}
	return errs
}

// endpointsWarnings returns the warnings for addresses that are not in the canonical format. The controller writes no others.
//
//upstream:pkg/registry/core/endpoint.endpointsWarnings
func endpointsWarnings(e, _ *corev1.Endpoints) []string {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var warnings []string
	for i := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, a := range e.Subsets[i].Addresses {
			warnings = append(warnings, fieldrules.IPWarnings(a.IP, at.Child("addresses").Index(j).Child("ip"))...)
		}
		for j, a := range e.Subsets[i].NotReadyAddresses {
			warnings = append(warnings, fieldrules.IPWarnings(a.IP, at.Child("notReadyAddresses").Index(j).Child("ip"))...)
		}
	}
	return warnings
}

// MaxEndpointCell is the maximum number of endpoints in a cell of a table.
//
//upstream:pkg/printers/internalversion.formatEndpoints
const MaxEndpointCell = 3

// endpointCell returns the ready endpoints as a cell of a table.
//
//upstream:pkg/printers/internalversion.formatEndpoints
func endpointCell(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return columns.None
	}
	var cells []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				cells = append(cells, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				cells = append(cells, net.JoinHostPort(a.IP, fieldrules.Decimal(p.Port)))
			}
		}
	}
	if more := len(cells) - MaxEndpointCell; more > 0 {
		return strings.Join(cells[:MaxEndpointCell], ",") + fmt.Sprintf(" + %d more...", more)
	}
	return strings.Join(cells, ",")
}
