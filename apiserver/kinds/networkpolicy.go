package kinds

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
