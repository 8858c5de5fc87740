package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// NetworkPolicies describes the kind NetworkPolicy.
//
//upstream:pkg/registry/networking/networkpolicy.networkPolicyStrategy
//upstream:pkg/printers/internalversion.printNetworkPolicy
//upstream:pkg/registry/networking/networkpolicy/storage.REST.ShortNames
func NetworkPolicies() kinds.Kind {
	return kinds.Of[*networkingv1.NetworkPolicy]{
		Type: &networkingv1.NetworkPolicy{}, List: &networkingv1.NetworkPolicyList{},
		Plural: "networkpolicies", ShortNames: []string{"netpol"}, Generation: true,
		Unenforced:     "there is no network",
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultNetworkPolicy,
		ValidateCreate: func(n *networkingv1.NetworkPolicy) field.ErrorList { return validateNetworkPolicy(n, nil) },
		ValidateUpdate: func(n, old *networkingv1.NetworkPolicy) field.ErrorList {
			return validateNetworkPolicy(n, networkPolicyCIDRs(old))
		},
		Warnings: func(n, _ *networkingv1.NetworkPolicy) []string { return networkPolicyWarnings(n) },
		Columns: []metav1.TableColumnDefinition{columns.Column("Pod-Selector", "string",
			networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"])},
		Row: func(n *networkingv1.NetworkPolicy) []any { return []any{columns.SelectorCell(&n.Spec.PodSelector)} },
	}
}

// networkPolicyWarnings warns about CIDRs that are ambiguous or not canonical.
//
//upstream:pkg/registry/networking/networkpolicy.networkPolicyWarnings
func networkPolicyWarnings(n *networkingv1.NetworkPolicy) []string {
	var warnings []string
	peers := func(list []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i, peer := range list {
			if peer.IPBlock == nil {
				continue
			}
			block := at.Index(i).Child("ipBlock")
			warnings = append(warnings, validation.GetWarningsForCIDR(block.Child("cidr"), peer.IPBlock.CIDR)...)
			for j, except := range peer.IPBlock.Except {
				warnings = append(warnings, validation.GetWarningsForCIDR(block.Child("except").Index(j), except)...)
			}
		}
	}
	for i := range n.Spec.Ingress {
		peers(n.Spec.Ingress[i].From, fieldrules.Spec.ChildField("ingress").Index(i).Child("from"))
	}
	for i := range n.Spec.Egress {
		peers(n.Spec.Egress[i].To, fieldrules.Spec.ChildField("egress").Index(i).Child("to"))
	}
	return warnings
}

//upstream:pkg/apis/networking/v1.SetDefaults_NetworkPolicy
//upstream:pkg/apis/networking/v1.SetDefaults_NetworkPolicyPort
func defaultNetworkPolicy(n *networkingv1.NetworkPolicy) {
	if len(n.Spec.PolicyTypes) == 0 {
		n.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(n.Spec.Egress) > 0 {
			n.Spec.PolicyTypes = append(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			fieldrules.DefaultPointer(&list[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range n.Spec.Ingress {
		ports(n.Spec.Ingress[i].Ports)
	}
	for i := range n.Spec.Egress {
		ports(n.Spec.Egress[i].Ports)
	}
}

// networkPolicyCIDRs returns the CIDRs of a policy. An update may keep them though they are not in the canonical form.
//
//upstream:pkg/apis/networking/validation.ValidateNetworkPolicyUpdate
func networkPolicyCIDRs(n *networkingv1.NetworkPolicy) []string {
	var cidrs []string
	peers := func(list []networkingv1.NetworkPolicyPeer) {
		for _, peer := range list {
			if peer.IPBlock != nil {
				cidrs = append(append(cidrs, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		}
	}
	for i := range n.Spec.Ingress {
		peers(n.Spec.Ingress[i].From)
	}
	for i := range n.Spec.Egress {
		peers(n.Spec.Egress[i].To)
	}
	return cidrs
}

// validateNetworkPolicy checks a policy. CIDRs that are known from the stored policy need not be in the canonical form.
//
//upstream:pkg/apis/networking/validation.ValidateNetworkPolicySpec
func validateNetworkPolicy(n *networkingv1.NetworkPolicy, known []string) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &n.Spec
	ingress, egress, types := spec.Child("ingress"), spec.Child("egress"), spec.Child("policyTypes")
	check.LabelSelector(spec.Child("podSelector"), &s.PodSelector)
	for i, r := range s.Ingress {
		policyPorts(ingress.Index(i).Child("ports"), r.Ports)
		policyPeers(ingress.Index(i).Child("from"), r.From, known)
	}
	for i, r := range s.Egress {
		policyPorts(egress.Index(i).Child("ports"), r.Ports)
		policyPeers(egress.Index(i).Child("to"), r.To, known)
	}
	if len(s.PolicyTypes) > 2 {
		types.Invalid(s.PolicyTypes, "may not specify more than two policyTypes")
		return errs
	}
	for i := range s.PolicyTypes {
		check.Supported(types.Index(i), s.PolicyTypes[i], networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
	return errs
}

//upstream:pkg/apis/networking/validation.ValidateNetworkPolicyPort
func policyPorts(list check.Field, ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		p, at := &ports[i], list.Index(i)
		check.OptionalOneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		check.Optional(at.Child("port"), p.Port, check.PortOrName)
		switch end := at.Child("endPort"); {
		case p.EndPort == nil:
		case p.Port == nil:
			end.Invalid(*p.EndPort, "may not be specified when `port` is not specified")
		case p.Port.Type == intstr.String:
			end.Invalid(*p.EndPort, "may not be specified when `port` is non-numeric")
		default:
			if *p.EndPort < p.Port.IntVal {
				end.Invalid(*p.EndPort, "must be greater than or equal to `port`")
			}
			check.Port(end, *p.EndPort)
		}
	}
}

// policyPeers checks that each peer has either selectors or an IP block.
//
//upstream:pkg/apis/networking/validation.ValidateNetworkPolicyPeer
func policyPeers(list check.Field, peers []networkingv1.NetworkPolicyPeer, known []string) {
	for i := range peers {
		p, at := &peers[i], list.Index(i)
		if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
			at.Required("must specify a peer")
			continue
		}
		check.LabelSelector(at.Child("podSelector"), p.PodSelector)
		check.LabelSelector(at.Child("namespaceSelector"), p.NamespaceSelector)
		if p.IPBlock != nil {
			check.Forbid(at, p.PodSelector != nil || p.NamespaceSelector != nil, "may not specify both ipBlock and another peer")
			ipBlock(at.Child("ipBlock"), p.IPBlock, known)
		}
	}
}

// ipBlock checks a network, and that the exceptions are in it.
//
//upstream:pkg/apis/networking/validation.ValidateIPBlock
func ipBlock(at check.Field, b *networkingv1.IPBlock, known []string) {
	cidr, exceptions := at.Child("cidr"), at.Child("except")
	if b.CIDR == "" {
		cidr.Required("")
		return
	}
	cidr.Report(validation.IsValidCIDRForLegacyField(cidr.Path.Field(), b.CIDR, true, known)...)
	_, outer, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	bits, _ := outer.Mask.Size()
	for i, except := range b.Except {
		at := exceptions.Index(i)
		at.Report(validation.IsValidCIDRForLegacyField(at.Path.Field(), except, true, known)...)
		_, inner, err := netutils.ParseCIDRSloppy(except)
		if err != nil {
			continue
		}
		if innerBits, _ := inner.Mask.Size(); !outer.Contains(inner.IP) || bits >= innerBits {
			at.Invalid(except, "must be a strict subset of `cidr`")
		}
	}
}
