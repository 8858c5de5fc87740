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

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// validateService checks the spec of a service. The old service has no spec on create.
//
//upstream:pkg/apis/core/validation.validateService
func validateService(s, old *corev1.Service) field.ErrorList {
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
	errs = append(errs, clusterAddresses(spec, old.Spec.ClusterIPs)...)
	errs = append(errs, externalAddresses(spec, &old.Spec)...)
	errs = append(errs, serviceAnnotations(s, old)...)
	return append(errs, outside(s)...)
}

// serviceStatus checks the addresses of the load balancer.
//
//upstream:pkg/apis/core/validation.ValidateLoadBalancerStatus
func serviceStatus(s, old *corev1.Service) field.ErrorList {
	var known []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		known = append(known, in.IP)
	}
	balancer := fieldrules.Status.Child("loadBalancer")
	list := balancer.Child("ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		return field.ErrorList{field.Forbidden(list.Field(), "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var errs field.ErrorList
	for i, in := range s.Status.LoadBalancer.Ingress {
		at := list.Index(i)
		errs = append(errs, fieldrules.LoadBalancerAddress(in.IP, in.Hostname, true, known, &at)...)
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
		if spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(at.ChildField("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		if !nodePorts.Add(portAndProtocol{p.NodePort, p.Protocol}) {
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
		if name := strings.TrimSuffix(spec.ExternalName, "."); name == "" {
			errs = append(errs, field.Required(fieldrules.Spec.ChildField("externalName"), ""))
		} else {
			errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Subdomain(name), name, &fieldrules.Spec, "externalName")...)
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
	}
	if hasNodePort(spec.Type) && isHeadless(spec) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("clusterIPs").Index(0), spec.ClusterIPs[0],
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
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
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

// clusterAddresses checks the cluster IPs, and that they agree with the families. An address that is known may be in an
// older format.
//
//upstream:pkg/apis/core/validation.ValidateServiceClusterIPsRelatedFields
func clusterAddresses(spec *corev1.ServiceSpec, known []string) field.ErrorList {
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
		errs = append(errs, validation.IsValidIPForLegacyField(at.Field(), ip, true, known)...)
	}
	valid := len(errs) == before
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if !valid {
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs)
		if err != nil {
			errs = append(errs, field.InternalError(list.Field(), fmt.Errorf("failed to check for dual stack with error:%w", err)))
		}
		if !dual {
			errs = append(errs, field.Invalid(list.Field(), spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if isHeadless(spec) {
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
func externalAddresses(spec, old *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("externalIPs")
	for i, ip := range spec.ExternalIPs {
		at := list.Index(i)
		if bad := validation.IsValidIPForLegacyField(at.Field(), ip, true, old.ExternalIPs); len(bad) > 0 {
			errs = append(errs, bad...)
		} else if parsed, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(ip)); ok {
			errs = append(errs, fieldrules.PublicIP(parsed.Unmap(), ip, &at, "")...)
		}
	}
	var known []string
	for _, cidr := range old.LoadBalancerSourceRanges {
		known = append(known, strings.TrimSpace(cidr))
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		errs = append(errs, validation.IsValidCIDRForLegacyField(sourceRanges.Index(i), strings.TrimSpace(cidr), true, known)...)
	}
	return errs
}

// serviceAnnotations checks the annotations that Kubernetes interprets.
//
//upstream:pkg/apis/core/validation.validateService
func serviceAnnotations(s, old *corev1.Service) field.ErrorList {
	if len(s.Annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := fieldrules.Metadata.ChildField("annotations")
	hints, hinted := s.Annotations[topologyHints]
	if mode, ok := s.Annotations[corev1.AnnotationTopologyMode]; ok && hinted && mode != hints {
		errs = append(errs, field.Invalid(at.Key(corev1.AnnotationTopologyMode), mode,
			fmt.Sprintf("must match annotations[%s] when both are specified", topologyHints)))
	}
	const key = corev1.AnnotationLoadBalancerSourceRangesKey
	text, ok := s.Annotations[key]
	if !ok || len(s.Spec.LoadBalancerSourceRanges) > 0 {
		return errs
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at.Key(key), "may only be used when `type` is 'LoadBalancer'"))
	}
	if was, ok := old.Annotations[key]; ok && was == text || strings.TrimSpace(text) == "" {
		return errs
	}
	for cidr := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at.Key(key), strings.TrimSpace(cidr), true, nil)...)
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
	if wantsHealthPort(s) {
		if spec.HealthCheckNodePort == 0 {
			errs = append(errs, field.Required(fieldrules.Spec.ChildField("healthCheckNodePort"), ""))
		} else {
			errs = append(errs, fieldrules.Port(spec.HealthCheckNodePort, &fieldrules.Spec, "healthCheckNodePort")...)
		}
	}
	if hasClusterIP(spec.Type) && spec.InternalTrafficPolicy == nil {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("internalTrafficPolicy"), ""))
	}
	errs = append(errs, fieldrules.OptionalOneOf(spec.InternalTrafficPolicy, &fieldrules.Spec, "internalTrafficPolicy",
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	return append(errs, trafficDistribution(spec)...)
}

// validateServiceUpdate checks an update, which changes neither the addresses and the families of a service, nor the class
// and the health check of a load balancer.
//
//upstream:pkg/apis/core/validation.ValidateServiceUpdate
//upstream:pkg/apis/core/validation.validateServiceExternalTrafficFieldsUpdate
//upstream:pkg/apis/core/validation.validateLoadBalancerClassField
func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	errs := validateService(s, old)
	if s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, sameAddresses(&s.Spec, &old.Spec)...)
		errs = append(errs, sameFamilies(&s.Spec, &old.Spec)...)
	}
	balanced := s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer
	if balanced && !equality.Semantic(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("loadBalancerClass"),
			s.Spec.LoadBalancerClass, "may not change once set"))
	}
	if wantsHealthPort(s) && wantsHealthPort(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

// isHeadless reports whether a service has no address.
//
//upstream:pkg/apis/core/validation.isHeadlessService
func isHeadless(spec *corev1.ServiceSpec) bool {
	return len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// singleStack reports whether the family policy of a service is SingleStack.
func singleStack(spec *corev1.ServiceSpec) bool {
	return spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

// sameAddresses checks that an update changes no address. It may add a second address, or remove it with the policy
// SingleStack.
//
//upstream:pkg/apis/core/validation.validateUpgradeDowngradeClusterIPs
func sameAddresses(now, was *corev1.ServiceSpec) field.ErrorList {
	if isHeadless(now) && isHeadless(was) {
		return nil
	}
	at := fieldrules.Spec.ChildField("clusterIPs")
	is, before := now.ClusterIPs, was.ClusterIPs
	var errs field.ErrorList
	for i := range before {
		if i < len(is) && is[i] != before[i] && (i == 0 || len(is) == len(before)) {
			errs = append(errs, field.Invalid(at.Index(i), is, "may not change once set"))
		}
	}
	if len(is) >= len(before) {
		return errs
	}
	if len(is) == 0 {
		errs = append(errs, field.Invalid(at.Index(0), is, "primary clusterIP can not be unset"))
	}
	if len(is) == 1 && !singleStack(now) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), now.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

// sameFamilies checks that an update changes no family, as sameAddresses does. As in kube-apiserver, most errors show the
// addresses, and all are at the first family.
//
//upstream:pkg/apis/core/validation.validateUpgradeDowngradeIPFamilies
func sameFamilies(now, was *corev1.ServiceSpec) field.ErrorList {
	if isHeadless(now) || isHeadless(was) {
		return nil
	}
	at := fieldrules.Spec.ChildField("ipFamilies").Index(0)
	is, before := now.IPFamilies, was.IPFamilies
	if len(is) == len(before) {
		if slices.Equal(is, before) {
			return nil
		}
		return field.ErrorList{field.Invalid(at, is, "may not change once set")}
	}
	var errs field.ErrorList
	if len(before) > 0 && len(is) > 0 && is[0] != before[0] {
		errs = append(errs, field.Invalid(at, now.ClusterIPs, "may not change once set"))
	}
	if len(is) > len(before) {
		return errs
	}
	if len(now.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(at, is, "primary ipFamily can not be unset"))
	}
	if len(is) == 1 && !singleStack(now) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), now.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
