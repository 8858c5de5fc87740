// Package networking describes the kinds of the networking.k8s.io API group.
package networking

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Ingresses describes the kind Ingress.
//
//upstream:pkg/registry/networking/ingress.ingressStrategy
//upstream:pkg/registry/networking/ingress.ingressStatusStrategy
//upstream:pkg/apis/networking/validation.ValidateIngressStatusUpdate
//upstream:pkg/printers/internalversion.printIngress
//upstream:pkg/registry/networking/ingress/storage.REST.ShortNames
func Ingresses() kinds.Kind {
	return kinds.Of[*networkingv1.Ingress]{
		Type: &networkingv1.Ingress{}, List: &networkingv1.IngressList{},
		Plural: "ingresses", ShortNames: []string{"ing"},
		Name:           fieldrules.NameIsSubdomain,
		Validate:       validateIngress,
		ValidateCreate: ingressClass,
		Warnings: func(in, old *networkingv1.Ingress) []string {
			if _, set := in.Annotations[classAnnotation]; !set || old != nil {
				return nil
			}
			return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
		},
		Status: true,
		ValidateStatus: func(in, old *networkingv1.Ingress) field.ErrorList {
			var errs field.ErrorList
			var known []string
			for _, address := range old.Status.LoadBalancer.Ingress {
				known = append(known, address.IP)
			}
			balancer := fieldrules.Status.Child("loadBalancer")
			list := balancer.Child("ingress")
			for i, address := range in.Status.LoadBalancer.Ingress {
				at := list.Index(i)
				errs = append(errs, fieldrules.LoadBalancerAddress(address.IP, address.Hostname, true, known, &at)...)
			}
			return errs
		},
		Generation: true,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Class", "string", "The class of the ingress."),
			columns.Column("Hosts", "string", "The hosts that the rules are for."),
			columns.Column("Address", "string", "Where the load balancer is reached."),
			columns.Column("Ports", "string", "The ports that are open, which depend on TLS."),
		},
		Row: ingressRow,
	}
}

// classAnnotation names the class of an ingress. The field ingressClassName replaces it.
//
//upstream:pkg/apis/networking/validation.annotationIngressClass
const classAnnotation = "kubernetes.io/ingress.class"

// ingressClass checks that a new ingress does not have both the annotation and the field for the class.
//
//upstream:pkg/apis/networking/validation.ValidateIngressCreate
func ingressClass(in *networkingv1.Ingress) field.ErrorList {
	class, set := in.Annotations[classAnnotation]
	if c := in.Spec.IngressClassName; set && c != nil && *c != class {
		return field.ErrorList{field.Invalid(field.NewPath("annotations").Child(classAnnotation), class,
			"must match `ingressClassName` when both are specified")}
	}
	return nil
}

//upstream:pkg/apis/networking/validation.ValidateIngressSpec
//upstream:pkg/apis/networking/validation.validateIngressTLS
//upstream:pkg/apis/networking/validation.validateTLSSecretName
func validateIngress(in *networkingv1.Ingress) field.ErrorList {
	s := &in.Spec
	var errs field.ErrorList
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(fieldrules.Spec.Field(), s.Rules,
			"either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		at := fieldrules.Spec.Child("defaultBackend")
		errs = append(errs, ingressBackend(s.DefaultBackend, &at)...)
	}
	list := fieldrules.Spec.Child("rules")
	for i := range s.Rules {
		at := list.Index(i)
		errs = append(errs, ingressRule(&s.Rules[i], &at)...)
	}
	list = fieldrules.Spec.Child("tls")
	for i := range s.TLS {
		item := list.Index(i)
		hosts := item.Child("hosts")
		for j, h := range s.TLS[i].Hosts {
			at := hosts.Index(j)
			errs = append(errs, hostPattern(h, &at, "")...)
		}
		if name := s.TLS[i].SecretName; name != "" {
			errs = append(errs, fieldrules.DNSName(name, &item, "secretName")...)
		}
	}
	if c := s.IngressClassName; c != nil {
		errs = append(errs, fieldrules.DNSName(*c, &fieldrules.Spec, "ingressClassName")...)
	}
	return errs
}

// hostPattern checks a host name. Its first label may be a wildcard.
func hostPattern(h string, fldPath *fieldrules.Path, name string) field.ErrorList {
	if strings.Contains(h, "*") {
		return fieldrules.Invalid(validation.IsWildcardDNS1123Subdomain(h), h, fldPath, name)
	}
	return fieldrules.Invalid(validation.IsDNS1123Subdomain(h), h, fldPath, name)
}

// ingressRule checks the host and the paths of a rule.
//
//upstream:pkg/apis/networking/validation.validateIngressRules
//upstream:pkg/apis/networking/validation.validateIngressRuleValue
//upstream:pkg/apis/networking/validation.validateHTTPIngressRuleValue
func ingressRule(r *networkingv1.IngressRule, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(fldPath.ChildField("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, hostPattern(r.Host, fldPath, "host")...)
	}
	if r.HTTP == nil {
		return errs
	}
	http := fldPath.Child("http")
	list := http.Child("paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(list.Field(), ""))
	}
	for i := range r.HTTP.Paths {
		p, at := &r.HTTP.Paths[i], list.Index(i)
		errs = append(errs, ingressPath(p, &at)...)
		if p.PathType == nil {
			continue
		}
		backend := at.Child("backend")
		errs = append(errs, ingressBackend(&p.Backend, &backend)...)
	}
	return errs
}

// ingressPath checks a path of a rule and its backend.
//
//upstream:pkg/apis/networking/validation.validateHTTPIngressPath
func ingressPath(p *networkingv1.HTTPIngressPath, fldPath *fieldrules.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(fldPath.ChildField("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(fldPath.ChildField("path"), p.Path, "must be an absolute path"))
		}
		for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(fldPath.ChildField("path"), p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(fldPath.ChildField("path"), p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(fldPath.ChildField("path"), p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(fldPath.ChildField("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return errs
}

// ingressBackend checks that a backend is either a service or a resource.
//
//upstream:pkg/apis/networking/validation.validateIngressBackend
func ingressBackend(b *networkingv1.IngressBackend, fldPath *fieldrules.Path) field.ErrorList {
	switch {
	case b.Service != nil && b.Resource != nil:
		return field.ErrorList{field.Invalid(fldPath.Field(), "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		at := fldPath.Child("resource")
		return resourceBackend(b.Resource, &at)
	case b.Service == nil:
		return field.ErrorList{field.Invalid(fldPath.Field(), "", "resource or service backend is required")}
	}
	at := fldPath.Child("service")
	var errs field.ErrorList
	if b.Service.Name == "" {
		errs = append(errs, field.Required(at.ChildField("name"), ""))
	} else {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsLabel(b.Service.Name, false),
			b.Service.Name, &at, "name")...)
	}
	ports := at.Child("port")
	switch p := b.Service.Port; {
	case p.Name != "" && p.Number != 0:
		errs = append(errs, field.Invalid(fldPath.Field(), "", "cannot set both port name & port number"))
	case p.Name != "":
		errs = append(errs, fieldrules.Invalid(validation.IsValidPortName(p.Name), p.Name, &ports, "name")...)
	case p.Number != 0:
		errs = append(errs, fieldrules.Port(p.Number, &ports, "number")...)
	default:
		errs = append(errs, field.Required(fldPath.Field(), "port name or number is required"))
	}
	return errs
}

// resourceBackend checks the reference of a backend to a resource.
//
//upstream:pkg/apis/networking/validation.validateIngressTypedLocalObjectReference
func resourceBackend(r *corev1.TypedLocalObjectReference, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if r.APIGroup != nil {
		errs = fieldrules.Invalid(validation.IsDNS1123Subdomain(*r.APIGroup), *r.APIGroup, fldPath, "apiGroup")
	}
	for _, part := range [...]struct{ name, value string }{{"kind", r.Kind}, {"name", r.Name}} {
		errs = append(errs, fieldrules.Required(part.value, fldPath, part.name)...)
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(part.value, false), part.value, fldPath, part.name)...)
	}
	return errs
}

//upstream:pkg/printers/internalversion.printIngress
//upstream:pkg/printers/internalversion.formatHosts
//upstream:pkg/printers/internalversion.formatPorts
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
	slices.Sort(at)
	at = slices.Compact(at)
	class, host, ports := columns.None, "*", "80"
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
