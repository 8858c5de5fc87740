package core

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// validateService checks the spec of a service.
//
//upstream:pkg/apis/core/validation.validateService
func validateService(s *corev1.Service) field.ErrorList {
	spec := &s.Spec
	errs := fieldrules.OneOf(spec.Type, &fieldrules.Spec, "type", corev1.ServiceTypeClusterIP,
		corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	if len(spec.Ports) == 0 && spec.Type != corev1.ServiceTypeExternalName && !(len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone) {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("ports"), ""))
	}
	errs = append(errs, servicePorts(spec)...)
	errs = append(errs, fieldrules.LabelMap(spec.Selector, &fieldrules.Spec, "selector")...)
	errs = append(errs, affinity(spec)...)
	errs = append(errs, ofType(s)...)
	errs = append(errs, clusterAddresses(spec)...)
	errs = append(errs, externalAddresses(spec)...)
	errs = append(errs, outside(s)...)
	return errs
}

// serviceStatus checks the addresses of the load balancer.
//
//upstream:pkg/apis/core/validation.ValidateLoadBalancerStatus
func serviceStatus(s *corev1.Service) field.ErrorList {
	balancer := fieldrules.Status.Child("loadBalancer")
	list := balancer.Child("ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		return field.ErrorList{field.Forbidden(list.Field(), "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var errs field.ErrorList
	for i, in := range s.Status.LoadBalancer.Ingress {
		at := list.Index(i)
		errs = append(errs, fieldrules.LoadBalancerAddress(in.IP, in.Hostname, &at)...)
		switch {
		case in.IP != "" && in.IPMode == nil:
			errs = append(errs, field.Required(at.ChildField("ipMode"), "must be specified when `ip` is set"))
		case in.IP == "" && in.IPMode != nil:
			errs = append(errs, field.Forbidden(at.ChildField("ipMode"), "may not be specified when `ip` is not set"))
		case in.IPMode != nil:
			errs = append(errs, fieldrules.OneOf(*in.IPMode, &at, "ipMode",
				corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
	}
	return errs
}

// servicePorts checks the ports of a service, and that ports and node ports are unique.
//
//upstream:pkg/apis/core/validation.validateService
//upstream:pkg/apis/core/validation.validateServicePort
func servicePorts(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("ports")
	var names fieldrules.Seen[string]
	var numbers, nodePorts fieldrules.Seen[portAndProtocol]
	for i := range spec.Ports {
		p, at := &spec.Ports[i], list.Index(i)
		switch {
		case p.Name == "" && len(spec.Ports) > 1:
			errs = append(errs, field.Required(at.ChildField("name"), ""))
		case p.Name != "":
			errs = append(errs, fieldrules.DNSLabel(p.Name, &at, "name")...)
			if !names.Add(p.Name) {
				errs = append(errs, field.Duplicate(at.ChildField("name"), p.Name))
			}
		}
		errs = append(errs, fieldrules.Port(p.Port, &at, "port")...)
		errs = append(errs, fieldrules.OneOf(p.Protocol, &at, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)...)
		errs = append(errs, fieldrules.PortOrName(p.TargetPort, &at, "targetPort")...)
		if p.AppProtocol != nil {
			errs = append(errs, fieldrules.QualifiedName(*p.AppProtocol, &at, "appProtocol")...)
		}
		if !numbers.Add(portAndProtocol{p.Port, p.Protocol}) {
			errs = append(errs, field.Duplicate(at.Field(), fieldrules.Internal(corev1.ServicePort{
				Protocol: p.Protocol, Port: p.Port})))
		}
		if p.NodePort == 0 {
			continue
		}
		if !hasNodePort(spec.Type) {
			errs = append(errs, field.Forbidden(at.ChildField("nodePort"),
				"may not be used when `type` is '"+string(spec.Type)+"'"))
		} else if !nodePorts.Add(portAndProtocol{p.NodePort, p.Protocol}) {
			errs = append(errs, field.Duplicate(at.ChildField("nodePort"), p.NodePort))
		}
	}
	return errs
}

// portAndProtocol identifies a port of a service.
type portAndProtocol struct {
	port     int32
	protocol corev1.Protocol
}

// affinity checks the session affinity.
//
//upstream:pkg/apis/core/validation.validateService
//upstream:pkg/apis/core/validation.validateClientIPAffinityConfig
//upstream:pkg/apis/core/validation.validateAffinityTimeout
func affinity(spec *corev1.ServiceSpec) field.ErrorList {
	errs := fieldrules.OneOf(spec.SessionAffinity, &fieldrules.Spec, "sessionAffinity",
		corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)
	c := spec.SessionAffinityConfig
	switch at := fieldrules.Spec.Child("sessionAffinityConfig"); spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(at.Field(), "must not be set when session affinity is None"))
		}
	case corev1.ServiceAffinityClientIP:
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			return append(errs, field.Required(at.Field(), "when session affinity type is ClientIP"))
		}
		const day int32 = 24 * 60 * 60
		if t := *c.ClientIP.TimeoutSeconds; t <= 0 || t > day {
			errs = append(errs, field.Invalid(at.ChildField("clientIP").Child("timeoutSeconds"), t,
				fmt.Sprintf("must be greater than 0 and less than %d", day)))
		}
	}
	return errs
}

// ofType checks the fields that depend on the type of a service.
//
//upstream:pkg/apis/core/validation.validateService
//upstream:pkg/apis/core/validation.validateLoadBalancerClassField
func ofType(s *corev1.Service) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	if spec.Type == corev1.ServiceTypeExternalName {
		if spec.ExternalName == "" {
			errs = append(errs, field.Required(fieldrules.Spec.ChildField("externalName"), ""))
		} else {
			errs = append(errs,
				fieldrules.Invalid(validation.IsDNS1123Subdomain(strings.TrimSuffix(spec.ExternalName, ".")),
					spec.ExternalName, &fieldrules.Spec, "externalName")...)
		}
		for _, f := range [...]struct {
			name string
			set  bool
		}{{"clusterIPs", len(spec.ClusterIPs) > 0}, {"ipFamilies", len(spec.IPFamilies) > 0},
			{"ipFamilyPolicy", spec.IPFamilyPolicy != nil}} {
			if f.set {
				errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField(f.name), "may not be set for ExternalName services"))
			}
		}
		return errs
	}
	if spec.ClusterIP == corev1.ClusterIPNone && hasNodePort(spec.Type) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("clusterIPs").Index(0), spec.ClusterIP,
			"may not be set to 'None' for "+string(spec.Type)+" services"))
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		if spec.AllocateLoadBalancerNodePorts != nil {
			errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("allocateLoadBalancerNodePorts"),
				"may only be used when `type` is 'LoadBalancer'"))
		}
		if spec.LoadBalancerClass != nil {
			errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("loadBalancerClass"),
				"may only be used when `type` is 'LoadBalancer'"))
		}
		if len(spec.LoadBalancerSourceRanges) > 0 {
			errs = append(errs, field.Forbidden(sourceRanges,
				"may only be used when `type` is 'LoadBalancer'"))
		}
		return errs
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("allocateLoadBalancerNodePorts"), ""))
	}
	if c := spec.LoadBalancerClass; c != nil {
		errs = append(errs, fieldrules.QualifiedName(*c, &fieldrules.Spec, "loadBalancerClass")...)
	}
	return errs
}

// sourceRanges is the path of the source ranges in errors, in the spelling of kube-apiserver.
//
//upstream:pkg/apis/core/validation.validateService
var sourceRanges = fieldrules.Spec.ChildField("LoadBalancerSourceRanges")

// clusterAddresses checks the cluster IPs, and that they agree with the families.
//
//upstream:pkg/apis/core/validation.ValidateServiceClusterIPsRelatedFields
func clusterAddresses(spec *corev1.ServiceSpec) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	list := fieldrules.Spec.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(list.Field(), ""))
	case len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	errs = append(errs, ipFamilies(spec)...)
	before := len(errs)
	for i, ip := range spec.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		at := list.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Field(), ip, false, nil)...)
	}
	valid := len(errs) == before
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if !valid {
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err != nil || !dual {
			errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		return errs
	}
	for i, f := range spec.IPFamilies[:min(len(spec.IPFamilies), len(spec.ClusterIPs))] {
		known := f == corev1.IPv4Protocol || f == corev1.IPv6Protocol
		if ip, at := spec.ClusterIPs[i], list.Index(i); known && f != familyOf(ip) {
			errs = append(errs, field.Invalid(at.Field(), ip,
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", f, i)))
		}
	}
	return errs
}

// ipFamilies checks the families of a service and the family policy. A family may occur once.
//
//upstream:pkg/apis/core/validation.ValidateServiceClusterIPsRelatedFields
func ipFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("ipFamilies")
	var seen fieldrules.Seen[corev1.IPFamily]
	for i, f := range spec.IPFamilies {
		at := list.Index(i)
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			errs = append(errs, field.NotSupported(at.Field(), f, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if !seen.Add(f) {
			errs = append(errs, field.Duplicate(at.Field(), f))
		}
	}
	return append(errs, fieldrules.OptionalOneOf(spec.IPFamilyPolicy, &fieldrules.Spec, "ipFamilyPolicy",
		corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
}

// familyOf returns the family of an IP address.
//
//upstream:pkg/registry/core/service/storage.familyOf
func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// externalAddresses checks the external IPs and the source ranges.
//
//upstream:pkg/apis/core/validation.validateService
func externalAddresses(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("externalIPs")
	for i, ip := range spec.ExternalIPs {
		at := list.Index(i)
		if bad := validation.IsValidIPForLegacyField(at.Field(), ip, false, nil); len(bad) > 0 {
			errs = append(errs, bad...)
		} else if parsed, err := netip.ParseAddr(ip); err == nil {
			errs = append(errs, fieldrules.PublicIP(parsed, ip, &at, "")...)
		}
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		errs = append(errs, validation.IsValidCIDRForLegacyField(sourceRanges.Index(i), strings.TrimSpace(cidr), false, nil)...)
	}
	return errs
}

// trafficDistribution checks the preference for endpoints near the client.
//
//upstream:pkg/apis/core/validation.validateServiceTrafficDistribution
func trafficDistribution(spec *corev1.ServiceSpec) field.ErrorList {
	known := []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode}
	if d := spec.TrafficDistribution; d != nil && !slices.Contains(known, *d) {
		return field.ErrorList{field.NotSupported(fieldrules.Spec.ChildField("trafficDistribution"), *d, known)}
	}
	return nil
}

// outside checks the traffic policies, the health check node port and the traffic distribution.
//
//upstream:pkg/apis/core/validation.validateServiceExternalTrafficPolicy
//upstream:pkg/apis/core/validation.validateServiceInternalTrafficFieldsValue
func outside(s *corev1.Service) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	local := spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	switch {
	case externallyAccessible(s):
		errs = append(errs, fieldrules.OneOf(spec.ExternalTrafficPolicy, &fieldrules.Spec, "externalTrafficPolicy",
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	case spec.ExternalTrafficPolicy != "":
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("externalTrafficPolicy"),
			spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if n := spec.HealthCheckNodePort; n != 0 && (spec.Type != corev1.ServiceTypeLoadBalancer || !local) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("healthCheckNodePort"), n,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	if hasClusterIP(spec.Type) && spec.InternalTrafficPolicy == nil {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("internalTrafficPolicy"), ""))
	}
	errs = append(errs, fieldrules.OptionalOneOf(spec.InternalTrafficPolicy, &fieldrules.Spec, "internalTrafficPolicy",
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	return append(errs, trafficDistribution(spec)...)
}

// validateServiceUpdate checks that the cluster IP, the first family and the class of the load balancer
// do not change once they are set.
//
//upstream:pkg/apis/core/validation.ValidateServiceUpdate
//upstream:pkg/apis/core/validation.validateUpgradeDowngradeClusterIPs
//upstream:pkg/apis/core/validation.validateUpgradeDowngradeIPFamilies
//upstream:pkg/apis/core/validation.validateLoadBalancerClassField
func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(s.Spec.Type) || !hasClusterIP(old.Spec.Type) {
		return nil
	}
	var errs field.ErrorList
	if was := old.Spec.ClusterIP; was != "" && s.Spec.ClusterIP != was {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("clusterIPs").Index(0), s.Spec.ClusterIPs,
			"may not change once set"))
	}
	if now, was := s.Spec.IPFamilies, old.Spec.IPFamilies; len(was) > 0 && len(now) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilies").Index(0), now[0],
			"may not change once set"))
	}
	if was := old.Spec.LoadBalancerClass; was != nil && old.Spec.Type == s.Spec.Type &&
		(s.Spec.LoadBalancerClass == nil || *s.Spec.LoadBalancerClass != *was) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("loadBalancerClass"),
			s.Spec.LoadBalancerClass, "may not change once set"))
	}
	return errs
}
