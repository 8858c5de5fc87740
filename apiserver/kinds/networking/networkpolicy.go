package networking

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
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
func validateNetworkPolicy(n *networkingv1.NetworkPolicy, known []string) field.ErrorList {
	s := &n.Spec
	errs := fieldrules.LabelSelector(&s.PodSelector, &fieldrules.Spec, "podSelector")
	list := fieldrules.Spec.Child("ingress")
	for i := range s.Ingress {
		at := list.Index(i)
		errs = append(errs, policySide(s.Ingress[i].Ports, s.Ingress[i].From, &at, "from", known)...)
	}
	list = fieldrules.Spec.Child("egress")
	for i := range s.Egress {
		at := list.Index(i)
		errs = append(errs, policySide(s.Egress[i].Ports, s.Egress[i].To, &at, "to", known)...)
	}
	if len(s.PolicyTypes) > 2 {
		return append(errs, field.Invalid(fieldrules.Spec.ChildField("policyTypes"), s.PolicyTypes,
			"may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(fieldrules.Spec.ChildField("policyTypes").Index(i), t,
				[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}))
		}
	}
	return errs
}

// policyProtocols are the protocols of a policy's ports.
var policyProtocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

// policySide checks the ports and peers of an ingress or egress rule.
//
//upstream:pkg/apis/networking/validation.ValidateNetworkPolicyPort
func policySide(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer,
	fldPath *fieldrules.Path, name string, known []string) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("ports")
	for i := range ports {
		p, at := &ports[i], list.Index(i)
		if p.Protocol != nil && !slices.Contains(policyProtocols, *p.Protocol) {
			errs = append(errs, field.NotSupported(at.ChildField("protocol"), *p.Protocol, policyProtocols))
		}
		if p.Port != nil {
			errs = append(errs, fieldrules.PortOrName(*p.Port, &at, "port")...)
		}
		if p.EndPort != nil {
			switch {
			case p.Port == nil:
				errs = append(errs, field.Invalid(at.ChildField("endPort"), *p.EndPort,
					"may not be specified when `port` is not specified"))
			case p.Port.Type == intstr.String:
				errs = append(errs, field.Invalid(at.ChildField("endPort"), *p.EndPort,
					"may not be specified when `port` is non-numeric"))
			default:
				if *p.EndPort < p.Port.IntVal {
					errs = append(errs, field.Invalid(at.ChildField("endPort"), *p.EndPort, "must be greater than or equal to `port`"))
				}
				errs = append(errs, fieldrules.Port(*p.EndPort, &at, "endPort")...)
			}
		}
	}
	list = fldPath.Child(name)
	for i := range peers {
		at := list.Index(i)
		errs = append(errs, policyPeer(&peers[i], &at, known)...)
	}
	return errs
}

// policyPeer checks that a peer has either selectors or an IP block.
//
//upstream:pkg/apis/networking/validation.ValidateNetworkPolicyPeer
//upstream:pkg/apis/networking/validation.ValidateIPBlock
func policyPeer(p *networkingv1.NetworkPolicyPeer, fldPath *fieldrules.Path, known []string) field.ErrorList {
	if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
		return field.ErrorList{field.Required(fldPath.Field(), "must specify a peer")}
	}
	errs := fieldrules.LabelSelector(p.PodSelector, fldPath, "podSelector")
	errs = append(errs, fieldrules.LabelSelector(p.NamespaceSelector, fldPath, "namespaceSelector")...)
	if p.IPBlock == nil {
		return errs
	}
	at := fldPath.Child("ipBlock")
	if p.PodSelector != nil || p.NamespaceSelector != nil {
		errs = append(errs, field.Forbidden(fldPath.Field(), "may not specify both ipBlock and another peer"))
	}
	if p.IPBlock.CIDR == "" {
		return append(errs, field.Required(at.ChildField("cidr"), ""))
	}
	errs = append(errs, validation.IsValidCIDRForLegacyField(at.ChildField("cidr"), p.IPBlock.CIDR, true, known)...)
	_, outer, err := netutils.ParseCIDRSloppy(p.IPBlock.CIDR)
	if err != nil {
		return errs
	}
	bits, _ := outer.Mask.Size()
	for i, except := range p.IPBlock.Except {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at.ChildField("except").Index(i), except, true, known)...)
		_, inner, err := netutils.ParseCIDRSloppy(except)
		if err != nil {
			continue
		}
		if innerBits, _ := inner.Mask.Size(); !outer.Contains(inner.IP) || bits >= innerBits {
			errs = append(errs, field.Invalid(at.ChildField("except").Index(i), except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
