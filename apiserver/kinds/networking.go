package kinds

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func ingresses() Kind {
	return Of[*networkingv1.Ingress]{
		Type: &networkingv1.Ingress{}, List: &networkingv1.IngressList{},
		Plural: "ingresses", ShortNames: []string{"ing"},
		Name:       subdomain,
		Validate:   validateIngress,
		Status:     true,
		Generation: true,
		Columns: []metav1.TableColumnDefinition{
			column("Class", "string", "The class whose controller serves the ingress."),
			column("Hosts", "string", "The hosts that the rules are for."),
			column("Address", "string", "Where the load balancer is reached."),
			column("Ports", "string", "The ports that are open, which depend on TLS."),
		},
		Row: ingressRow,
	}
}

func validateIngress(in *networkingv1.Ingress) field.ErrorList {
	s := &in.Spec
	var errs field.ErrorList
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(specAt.path(), s.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		at := specAt.at("defaultBackend")
		errs = append(errs, ingressBackend(s.DefaultBackend, &at)...)
	}
	list := specAt.at("rules")
	for i := range s.Rules {
		at := list.item(i)
		errs = append(errs, ingressRule(&s.Rules[i], &at)...)
	}
	list = specAt.at("tls")
	for i := range s.TLS {
		item := list.item(i)
		hosts := item.at("hosts")
		for j, h := range s.TLS[i].Hosts {
			at := hosts.item(j)
			errs = append(errs, hostPattern(h, &at, "")...)
		}
	}
	if c := s.IngressClassName; c != nil {
		errs = append(errs, dnsName(*c, &specAt, "ingressClassName")...)
	}
	return errs
}

// hostPattern checks a host name whose first label may be a wildcard.
func hostPattern(h string, w *where, name string) field.ErrorList {
	if strings.Contains(h, "*") {
		return invalid(validation.IsWildcardDNS1123Subdomain(h), h, w, name)
	}
	return invalid(validation.IsDNS1123Subdomain(h), h, w, name)
}

func ingressRule(r *networkingv1.IngressRule, w *where) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if _, err := netip.ParseAddr(r.Host); err == nil {
			errs = append(errs, field.Invalid(w.of("host"), r.Host, "must be a DNS name, not an IP address"))
		} else {
			errs = append(errs, hostPattern(r.Host, w, "host")...)
		}
	}
	if r.HTTP == nil {
		return errs
	}
	http := w.at("http")
	list := http.at("paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(list.path(), ""))
	}
	for i := range r.HTTP.Paths {
		p, at := &r.HTTP.Paths[i], list.item(i)
		errs = append(errs, ingressPath(p, &at)...)
		backend := at.at("backend")
		errs = append(errs, ingressBackend(&p.Backend, &backend)...)
	}
	return errs
}

func ingressPath(p *networkingv1.HTTPIngressPath, w *where) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(w.of("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(w.of("path"), p.Path, "must be an absolute path"))
			break
		}
		for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(w.of("path"), p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(w.of("path"), p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(w.of("path"), p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(w.of("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return errs
}

func ingressBackend(b *networkingv1.IngressBackend, w *where) field.ErrorList {
	switch {
	case b.Service != nil && b.Resource != nil:
		return field.ErrorList{field.Invalid(w.path(), "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		at := w.at("resource")
		return append(required(b.Resource.Kind, &at, "kind"), required(b.Resource.Name, &at, "name")...)
	case b.Service == nil:
		return field.ErrorList{field.Required(w.path(), "")}
	}
	at := w.at("service")
	var errs field.ErrorList
	if b.Service.Name == "" {
		errs = append(errs, field.Required(at.of("name"), ""))
	} else {
		errs = append(errs, invalid(serviceName(b.Service.Name, false), b.Service.Name, &at, "name")...)
	}
	ports := at.at("port")
	switch p := b.Service.Port; {
	case p.Name != "" && p.Number != 0:
		errs = append(errs, field.Invalid(at.path(), "", "cannot set both port name & port number"))
	case p.Name != "":
		errs = append(errs, invalid(validation.IsValidPortName(p.Name), p.Name, &ports, "name")...)
	case p.Number != 0:
		errs = append(errs, port(p.Number, &ports, "number")...)
	default:
		errs = append(errs, field.Required(at.path(), "port name or number is required"))
	}
	return errs
}

func ingressRow(in *networkingv1.Ingress) []any {
	var hosts, at []string
	for _, r := range in.Spec.Rules {
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	for _, p := range in.Status.LoadBalancer.Ingress {
		if p.IP != "" {
			at = append(at, p.IP)
		} else if p.Hostname != "" {
			at = append(at, p.Hostname)
		}
	}
	class, host, ports := none, "*", "80"
	if in.Spec.IngressClassName != nil {
		class = *in.Spec.IngressClassName
	}
	if len(hosts) > 0 {
		host = strings.Join(hosts, ",")
	}
	if len(in.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{class, host, strings.Join(at, ","), ports}
}

const maxControllerName = 250

func ingressClasses() Kind {
	return Of[*networkingv1.IngressClass]{
		Type: &networkingv1.IngressClass{}, List: &networkingv1.IngressClassList{},
		Plural: "ingressclasses", Cluster: true, Generation: true,
		Name: subdomain,
		Default: func(c *networkingv1.IngressClass) {
			if c.Spec.Parameters != nil {
				orElse(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
			}
		},
		Validate: validateIngressClass,
		ValidateUpdate: func(c, old *networkingv1.IngressClass) field.ErrorList {
			return unchanged(c.Spec.Controller, old.Spec.Controller, &specAt, "controller")
		},
		Columns: []metav1.TableColumnDefinition{
			column("Controller", "string", "Who serves the ingresses of this class."),
			column("Parameters", "string", "The object that has more settings of this class."),
		},
		Row: func(c *networkingv1.IngressClass) []any {
			p := c.Spec.Parameters
			if p == nil {
				return []any{c.Spec.Controller, none}
			}
			kind := p.Kind
			if p.APIGroup != nil && *p.APIGroup != "" {
				kind += "." + *p.APIGroup
			}
			return []any{c.Spec.Controller, kind + "/" + p.Name}
		},
	}
}

func validateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	var errs field.ErrorList
	if n := c.Spec.Controller; len(n) > maxControllerName {
		errs = append(errs, field.TooLong(specAt.of("controller"), n, maxControllerName))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(specAt.of("controller"), c.Spec.Controller)...)
	p := c.Spec.Parameters
	if p == nil {
		return errs
	}
	at := specAt.at("parameters")
	errs = append(errs, required(p.Kind, &at, "kind")...)
	errs = append(errs, required(p.Name, &at, "name")...)
	if p.Scope == nil {
		return append(errs, field.Required(at.of("scope"), ""))
	}
	errs = append(errs, oneOf(*p.Scope, &at, "scope", networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)...)
	namespaced := *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace
	if namespaced && (p.Namespace == nil || *p.Namespace == "") {
		errs = append(errs, field.Required(at.of("namespace"), "`parameters.scope` is set to 'Namespace'"))
	}
	if !namespaced && p.Namespace != nil {
		errs = append(errs, field.Forbidden(at.of("namespace"), "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}

func networkPolicies() Kind {
	return Of[*networkingv1.NetworkPolicy]{
		Type: &networkingv1.NetworkPolicy{}, List: &networkingv1.NetworkPolicyList{},
		Plural: "networkpolicies", ShortNames: []string{"netpol"}, Generation: true,
		Unenforced: "there is no network",
		Name:       subdomain,
		Default:    defaultNetworkPolicy,
		Validate:   validateNetworkPolicy,
		Columns:    []metav1.TableColumnDefinition{column("Pod-Selector", "string", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"])},
		Row:        func(n *networkingv1.NetworkPolicy) []any { return []any{selectorCell(&n.Spec.PodSelector)} },
	}
}

func defaultNetworkPolicy(n *networkingv1.NetworkPolicy) {
	if len(n.Spec.PolicyTypes) == 0 {
		n.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(n.Spec.Egress) > 0 {
			n.Spec.PolicyTypes = append(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			orElse(&list[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range n.Spec.Ingress {
		ports(n.Spec.Ingress[i].Ports)
	}
	for i := range n.Spec.Egress {
		ports(n.Spec.Egress[i].Ports)
	}
}

func validateNetworkPolicy(n *networkingv1.NetworkPolicy) field.ErrorList {
	s := &n.Spec
	errs := labelSelector(&s.PodSelector, &specAt, "podSelector")
	list := specAt.at("ingress")
	for i := range s.Ingress {
		at := list.item(i)
		errs = append(errs, policySide(s.Ingress[i].Ports, s.Ingress[i].From, &at, "from")...)
	}
	list = specAt.at("egress")
	for i := range s.Egress {
		at := list.item(i)
		errs = append(errs, policySide(s.Egress[i].Ports, s.Egress[i].To, &at, "to")...)
	}
	if len(s.PolicyTypes) > 2 {
		return append(errs, field.Invalid(specAt.of("policyTypes"), s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(specAt.of("policyTypes").Index(i), t, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress}))
		}
	}
	return errs
}

func policySide(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, w *where, name string) field.ErrorList {
	var errs field.ErrorList
	list := w.at("ports")
	for i := range ports {
		p, at := &ports[i], list.item(i)
		errs = append(errs, oneOfIf(p.Protocol, &at, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if p.Port != nil {
			errs = append(errs, portOrName(*p.Port, &at, "port")...)
		}
		if p.EndPort != nil {
			switch {
			case p.Port == nil:
				errs = append(errs, field.Required(at.of("port"), "must be specified if `endPort` is set"))
			case p.Port.StrVal != "":
				errs = append(errs, field.Required(at.of("endPort"), "must not be specified if `port` is not a number"))
			case *p.EndPort < p.Port.IntVal:
				errs = append(errs, field.Invalid(at.of("endPort"), *p.EndPort, "must be greater than or equal to `port`"))
			default:
				errs = append(errs, port(*p.EndPort, &at, "endPort")...)
			}
		}
	}
	list = w.at(name)
	for i := range peers {
		at := list.item(i)
		errs = append(errs, policyPeer(&peers[i], &at)...)
	}
	return errs
}

func policyPeer(p *networkingv1.NetworkPolicyPeer, w *where) field.ErrorList {
	if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
		return field.ErrorList{field.Required(w.path(), "must specify a peer")}
	}
	errs := labelSelector(p.PodSelector, w, "podSelector")
	errs = append(errs, labelSelector(p.NamespaceSelector, w, "namespaceSelector")...)
	if p.IPBlock == nil {
		return errs
	}
	at := w.at("ipBlock")
	if p.PodSelector != nil || p.NamespaceSelector != nil {
		errs = append(errs, field.Forbidden(w.path(), "may not specify both ipBlock and another peer"))
	}
	if p.IPBlock.CIDR == "" {
		return append(errs, field.Required(at.of("cidr"), ""))
	}
	if bad := validation.IsValidCIDRForLegacyField(at.of("cidr"), p.IPBlock.CIDR, false, nil); len(bad) > 0 {
		return append(errs, bad...)
	}
	outer, err := netip.ParsePrefix(p.IPBlock.CIDR)
	for i, except := range p.IPBlock.Except {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at.of("except").Index(i), except, false, nil)...)
		inner, innerErr := netip.ParsePrefix(except)
		if err == nil && innerErr == nil && (!outer.Contains(inner.Addr()) || outer.Bits() >= inner.Bits()) {
			errs = append(errs, field.Invalid(at.of("except").Index(i), except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
