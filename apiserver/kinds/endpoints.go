package kinds

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func endpoints() Kind {
	return Of[*corev1.Endpoints]{
		Type: &corev1.Endpoints{}, List: &corev1.EndpointsList{},
		Plural: "endpoints", ShortNames: []string{"ep"}, CreateOnUpdate: true,
		Name: subdomain,
		Default: func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				for j := range e.Subsets[i].Ports {
					orSet(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
				}
			}
		},
		Validate: validateEndpoints,
		Columns:  []metav1.TableColumnDefinition{column("Endpoints", "string", corev1.Endpoints{}.SwaggerDoc()["subsets"])},
		Row:      func(e *corev1.Endpoints) []any { return []any{endpointCell(e)} },
	}
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	list := root.at("subsets")
	for i := range e.Subsets {
		s, at := &e.Subsets[i], list.item(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at.path(), "must specify `addresses` or `notReadyAddresses`"))
		}
		ready, notReady := at.at("addresses"), at.at("notReadyAddresses")
		errs = append(errs, endpointAddresses(s.Addresses, &ready)...)
		errs = append(errs, endpointAddresses(s.NotReadyAddresses, &notReady)...)
		ports := at.at("ports")
		for j, p := range s.Ports {
			item := ports.item(j)
			switch {
			case p.Name == "" && len(s.Ports) > 1:
				errs = append(errs, field.Required(item.of("name"), ""))
			case p.Name != "":
				errs = append(errs, dnsLabel(p.Name, &item, "name")...)
			}
			errs = append(errs, port(p.Port, &item, "port")...)
			errs = append(errs, oneOf(p.Protocol, &item, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		}
	}
	return errs
}

func endpointAddresses(list []corev1.EndpointAddress, w *where) field.ErrorList {
	var errs field.ErrorList
	for i, a := range list {
		at := w.item(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.of("ip"), a.IP, false, nil)...)
		if ip, err := netip.ParseAddr(a.IP); err == nil {
			errs = append(errs, publicIP(ip, a.IP, &at, "ip")...)
		}
		if a.Hostname != "" {
			errs = append(errs, dnsLabel(a.Hostname, &at, "hostname")...)
		}
		if a.NodeName != nil {
			errs = append(errs, dnsName(*a.NodeName, &at, "nodeName")...)
		}
	}
	return errs
}

// maxEndpointCell is how many endpoints a table shows of an object.
const maxEndpointCell = 3

func endpointCell(e *corev1.Endpoints) string {
	var cells []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 {
				cells = append(cells, a.IP)
			}
			for _, p := range s.Ports {
				cells = append(cells, netip.AddrPortFrom(addr(a.IP), uint16(p.Port)).String())
			}
		}
	}
	if more := len(cells) - maxEndpointCell; more > 0 {
		return strings.Join(cells[:maxEndpointCell], ",") + fmt.Sprintf(" + %d more...", more)
	}
	return orNone(strings.Join(cells, ","))
}

func addr(s string) netip.Addr {
	ip, _ := netip.ParseAddr(s)
	return ip
}
