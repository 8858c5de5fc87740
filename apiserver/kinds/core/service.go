package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Services describes the kind Service. The addresses allocate the cluster IPs.
//
//upstream:pkg/registry/core/service.svcStrategy
//upstream:pkg/registry/core/service.serviceStatusStrategy
//upstream:pkg/registry/core/service.SelectableFields
//upstream:pkg/registry/core/service/storage.REST.ShortNames
//upstream:pkg/registry/core/service/storage.REST.Categories
//upstream:pkg/apis/core/v1.AddFieldLabelConversionsForService
//upstream:pkg/printers/internalversion.printService
func Services(addresses *Addresses, c *Connections) kinds.Kind {
	return kinds.Of[*corev1.Service]{
		Type: &corev1.Service{}, List: &corev1.ServiceList{},
		Plural: "services", ShortNames: []string{"svc"}, Categories: []string{"all"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsLabel,
		CreateOnUpdate: true,
		Default:        defaultService,
		Prepare:        prepareService,
		ValidateCreate: func(s *corev1.Service) field.ErrorList { return validateService(s, &corev1.Service{}) },
		ValidateUpdate: validateServiceUpdate,
		Canonicalize:   canonicalizeService,
		Warnings:       serviceWarnings,
		Status:         true,
		ValidateStatus: serviceStatus,
		StatusWarnings: balancerWarnings,
		Allocator: func(s kinds.Stored[*corev1.Service]) kinds.ResourceAllocator[*corev1.Service] {
			addresses.services = &serviceAllocator{services: s, addresses: addresses}
			return addresses.services
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Type", "string", corev1.ServiceSpec{}.SwaggerDoc()["type"]),
			columns.Column("Cluster-IP", "string", corev1.ServiceSpec{}.SwaggerDoc()["clusterIP"]),
			columns.Column("External-IP", "string", corev1.ServiceSpec{}.SwaggerDoc()["externalIPs"]),
			columns.Column("Port(s)", "string", corev1.ServiceSpec{}.SwaggerDoc()["ports"]),
			columns.Wide("Selector", "string", corev1.ServiceSpec{}.SwaggerDoc()["selector"]),
		},
		Row: func(s *corev1.Service) []any {
			clusterIP := columns.None
			if len(s.Spec.ClusterIPs) > 0 {
				clusterIP = s.Spec.ClusterIPs[0]
			}
			return []any{string(s.Spec.Type), clusterIP, externalCell(s),
				portCell(s.Spec.Ports), columns.LabelCell(s.Spec.Selector)}
		},
		More: serviceProxy(c),
		Fields: func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		},
	}
}

// stickySeconds is the default timeout of session affinity.
const stickySeconds = int32(corev1.DefaultClientIPServiceAffinitySeconds)

// defaultService sets the defaults of a service, which depend on its type.
//
//upstream:pkg/apis/core/v1.SetDefaults_Service
func defaultService(s *corev1.Service) {
	spec := &s.Spec
	fieldrules.DefaultValue(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(stickySeconds)},
			}
		}
	}
	fieldrules.DefaultValue(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		fieldrules.DefaultValue(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if externallyAccessible(s) {
		fieldrules.DefaultValue(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(spec.Type) {
		fieldrules.DefaultPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		fieldrules.DefaultPointer(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				fieldrules.DefaultPointer(&in.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// hasClusterIP reports whether services of a type have a cluster IP.
//
//upstream:pkg/registry/core/service.needsClusterIP
func hasClusterIP(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeClusterIP || hasNodePort(t)
}

// hasNodePort reports whether services of a type have node ports.
//
//upstream:pkg/registry/core/service.needsNodePort
func hasNodePort(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

// externallyAccessible reports whether clients outside the cluster can reach a service.
//
//upstream:pkg/api/service.ExternallyAccessible
func externallyAccessible(s *corev1.Service) bool {
	return hasNodePort(s.Spec.Type) || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

// prepareService drops the fields that the new type of a service does not have, unless the update changes them.
//
//upstream:pkg/registry/core/service.dropTypeDependentFields
func prepareService(_ context.Context, s, old *corev1.Service) {
	if old == nil {
		return
	}
	now, was := &s.Spec, &old.Spec
	if now.Type == corev1.ServiceTypeExternalName && was.Type != corev1.ServiceTypeExternalName {
		dropAddresses(now, was)
	}
	if hasNodePort(was.Type) && !hasNodePort(now.Type) {
		dropNodePorts(now, was)
	}
	if wantsHealthPort(old) && !wantsHealthPort(s) && now.HealthCheckNodePort == was.HealthCheckNodePort {
		now.HealthCheckNodePort = 0
	}
	if externallyAccessible(old) && !externallyAccessible(s) && now.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		now.ExternalTrafficPolicy = ""
	}
	if now.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	if was.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if equality.Semantic(now.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
		now.AllocateLoadBalancerNodePorts = nil
	}
	if equality.Semantic(now.LoadBalancerClass, was.LoadBalancerClass) {
		now.LoadBalancerClass = nil
	}
}

// canonicalizeService drops a field that a service without an address does not have. kube-apiserver stores the field, and
// drops it when it reads the service.
//
//upstream:pkg/registry/core/service/storage.defaultOnReadInternalTrafficPolicy
func canonicalizeService(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// dropAddresses drops the addresses and the families that an update keeps.
func dropAddresses(now, was *corev1.ServiceSpec) {
	if now.ClusterIP == was.ClusterIP && slices.Equal(now.ClusterIPs, was.ClusterIPs) {
		now.ClusterIP, now.ClusterIPs = "", nil
	}
	if slices.Equal(now.IPFamilies, was.IPFamilies) {
		now.IPFamilies = nil
	}
	if equality.Semantic(now.IPFamilyPolicy, was.IPFamilyPolicy) {
		now.IPFamilyPolicy = nil
	}
}

// dropNodePorts drops the node ports of an update that has no others than before.
//
//upstream:pkg/registry/core/service.sameNodePorts
func dropNodePorts(now, was *corev1.ServiceSpec) {
	known := map[int32]bool{0: true}
	for _, p := range was.Ports {
		known[p.NodePort] = true
	}
	if slices.ContainsFunc(now.Ports, func(p corev1.ServicePort) bool { return !known[p.NodePort] }) {
		return
	}
	for i := range now.Ports {
		now.Ports[i].NodePort = 0
	}
}

// serviceWarnings returns the warnings about fields without effect and about deprecated fields.
//
//upstream:pkg/api/service.GetWarningsForService
func serviceWarnings(s, _ *corev1.Service) []string {
	spec := &s.Spec
	var all []string
	if _, ok := s.Annotations[topologyHints]; ok {
		all = append(all, fmt.Sprintf("annotation %s is deprecated, please use %s instead", topologyHints, corev1.AnnotationTopologyMode))
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			all = append(all, fieldrules.IPWarnings(ip, fieldrules.Spec.ChildField("clusterIPs").Index(i))...)
		}
	}
	for i, ip := range spec.ExternalIPs {
		all = append(all, fieldrules.IPWarnings(ip, fieldrules.Spec.ChildField("externalIPs").Index(i))...)
	}
	if spec.LoadBalancerIP != "" {
		all = append(all, fieldrules.IPWarnings(spec.LoadBalancerIP, fieldrules.Spec.ChildField("loadBalancerIP"))...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		all = append(all, fieldrules.CIDRWarnings(cidr, fieldrules.Spec.ChildField("loadBalancerSourceRanges").Index(i))...)
	}
	named := spec.Type == corev1.ServiceTypeExternalName
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			all = append(all, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			all = append(all, "spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			all = append(all, "spec.SessionAffinity is ignored for headless services")
		}
	}
	switch {
	case len(spec.ExternalIPs) == 0:
	case named:
		all = append(all, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	case !headless:
		all = append(all, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if !named && spec.ExternalName != "" {
		all = append(all, `spec.externalName is ignored when spec.type is not "ExternalName"`)
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		all = append(all, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q",
			*d, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return all
}

// topologyHints is the annotation that AnnotationTopologyMode has replaced.
const topologyHints = corev1.DeprecatedAnnotationTopologyAwareHints

// balancerWarnings returns the warnings for the addresses of the load balancer.
//
//upstream:pkg/registry/core/service.serviceStatusStrategy.WarningsOnUpdate
func balancerWarnings(s *corev1.Service) []string {
	var all []string
	at := fieldrules.Status.ChildField("loadBalancer").Child("ingress")
	for i, in := range s.Status.LoadBalancer.Ingress {
		all = append(all, fieldrules.IPWarnings(in.IP, at.Index(i))...)
	}
	return all
}

// externalCell returns the external addresses of a service as a cell of a table.
//
//upstream:pkg/printers/internalversion.getServiceExternalIP
func externalCell(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var at []string
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				at = append(at, in.IP)
			} else if in.Hostname != "" {
				at = append(at, in.Hostname)
			}
		}
		slices.Sort(at)
		at = slices.Compact(at)
		if at = append(at, s.Spec.ExternalIPs...); len(at) > 0 {
			return strings.Join(at, ",")
		}
		return "<pending>"
	}
	return columns.OrNone(strings.Join(s.Spec.ExternalIPs, ","))
}

// portCell returns the ports of a service as a cell of a table.
//
//upstream:pkg/printers/internalversion.makePortString
func portCell(ports []corev1.ServicePort) string {
	var cells []string
	for _, p := range ports {
		if p.NodePort > 0 {
			cells = append(cells, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			cells = append(cells, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return columns.OrNone(strings.Join(cells, ","))
}
