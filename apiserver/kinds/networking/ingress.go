// Package networking describes the kinds of the networking.k8s.io API group.
package networking

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		ValidateStatus: func(in, old *networkingv1.Ingress) (errs field.ErrorList) {
			var known []string
			for _, address := range old.Status.LoadBalancer.Ingress {
				known = append(known, address.IP)
			}
			list := check.Object(&errs).Child("status").Child("loadBalancer").Child("ingress")
			for i, address := range in.Status.LoadBalancer.Ingress {
				at := list.Index(i)
				at.Report(fieldrules.LoadBalancerAddress(address.IP, address.Hostname, true, known, &at.Path)...)
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
func ingressClass(in *networkingv1.Ingress) (errs field.ErrorList) {
	class, set := in.Annotations[classAnnotation]
	if c := in.Spec.IngressClassName; set && c != nil && *c != class {
		check.Object(&errs).Child("annotations").Child(classAnnotation).Invalid(class, "must match `ingressClassName` when both are specified")
	}
	return errs
}

//upstream:pkg/apis/networking/validation.ValidateIngressSpec
func validateIngress(in *networkingv1.Ingress) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &in.Spec
	rules, tls := spec.Child("rules"), spec.Child("tls")
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		spec.Invalid(s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	check.Optional(spec.Child("defaultBackend"), s.DefaultBackend, ingressBackend)
	for i := range s.Rules {
		ingressRule(rules.Index(i), &s.Rules[i])
	}
	for i := range s.TLS {
		ingressTLS(tls.Index(i), &s.TLS[i])
	}
	check.Optional(spec.Child("ingressClassName"), s.IngressClassName, check.DNSName)
	return errs
}

//upstream:pkg/apis/networking/validation.validateIngressTLS
//upstream:pkg/apis/networking/validation.validateTLSSecretName
func ingressTLS(at check.Field, t *networkingv1.IngressTLS) {
	hosts := at.Child("hosts")
	for i, h := range t.Hosts {
		hostPattern(hosts.Index(i), h)
	}
	check.IfSet(at.Child("secretName"), t.SecretName, check.DNSName)
}

// hostPattern checks a host name. Its first label may be a wildcard.
func hostPattern(at check.Field, h string) {
	if strings.Contains(h, "*") {
		check.Valid(at, h, validation.IsWildcardDNS1123Subdomain)
	} else {
		check.Valid(at, h, validation.IsDNS1123Subdomain)
	}
}

// ingressRule checks the host and the paths of a rule.
//
//upstream:pkg/apis/networking/validation.validateIngressRules
//upstream:pkg/apis/networking/validation.validateIngressRuleValue
//upstream:pkg/apis/networking/validation.validateHTTPIngressRuleValue
func ingressRule(at check.Field, r *networkingv1.IngressRule) {
	host, paths := at.Child("host"), at.Child("http").Child("paths")
	if netutils.ParseIPSloppy(r.Host) != nil {
		host.Invalid(r.Host, "must be a DNS name, not an IP address")
	}
	check.IfSet(host, r.Host, hostPattern)
	if r.HTTP == nil {
		return
	}
	if len(r.HTTP.Paths) == 0 {
		paths.Required("")
	}
	for i := range r.HTTP.Paths {
		ingressPath(paths.Index(i), &r.HTTP.Paths[i])
	}
}

// ingressPath checks a path of a rule and its backend. The backend of a path without a type is not checked.
//
//upstream:pkg/apis/networking/validation.validateHTTPIngressPath
func ingressPath(at check.Field, p *networkingv1.HTTPIngressPath) {
	kind, path := at.Child("pathType"), at.Child("path")
	if p.PathType == nil {
		kind.Required("pathType must be specified")
		return
	}
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		plainPath(path, p.Path)
	case networkingv1.PathTypeImplementationSpecific:
		check.IfSet(path, p.Path, absolutePath)
	default:
		kind.NotSupported(*p.PathType, "Exact", "ImplementationSpecific", "Prefix")
	}
	ingressBackend(at.Child("backend"), p.Backend)
}

func absolutePath(at check.Field, path string) {
	if !strings.HasPrefix(path, "/") {
		at.Invalid(path, "must be an absolute path")
	}
}

// plainPath checks that a path is absolute, and has no parts that are empty, "." or "..".
//
//upstream:pkg/apis/networking/validation.validateHTTPIngressPath
func plainPath(at check.Field, path string) {
	absolutePath(at, path)
	for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, bad) {
			at.Invalid(path, "must not contain '"+bad+"'")
		}
	}
	for _, bad := range []string{"/..", "/."} {
		if strings.HasSuffix(path, bad) {
			at.Invalid(path, "cannot end with '"+bad+"'")
		}
	}
}

// ingressBackend checks that a backend is either a service or a resource.
//
//upstream:pkg/apis/networking/validation.validateIngressBackend
func ingressBackend(at check.Field, b networkingv1.IngressBackend) {
	switch {
	case b.Service != nil && b.Resource != nil:
		at.Invalid("", "cannot set both resource and service backends")
	case b.Resource != nil:
		resourceBackend(at.Child("resource"), b.Resource)
	case b.Service == nil:
		at.Invalid("", "resource or service backend is required")
	default:
		serviceBackend(at, b.Service)
	}
}

// serviceBackend checks the service of the backend in.
//
//upstream:pkg/apis/networking/validation.validateIngressBackend
func serviceBackend(in check.Field, s *networkingv1.IngressServiceBackend) {
	service := in.Child("service")
	check.DNSLabel(service.Child("name"), s.Name)
	switch p, port := s.Port, service.Child("port"); {
	case p.Name != "" && p.Number != 0:
		in.Invalid("", "cannot set both port name & port number")
	case p.Name != "":
		check.Valid(port.Child("name"), p.Name, validation.IsValidPortName)
	case p.Number != 0:
		check.Port(port.Child("number"), p.Number)
	default:
		in.Required("port name or number is required")
	}
}

// resourceBackend checks the reference of a backend to a resource.
//
//upstream:pkg/apis/networking/validation.validateIngressTypedLocalObjectReference
func resourceBackend(at check.Field, r *corev1.TypedLocalObjectReference) {
	check.Optional(at.Child("apiGroup"), r.APIGroup, check.DNSName)
	for _, part := range [...]struct{ name, value string }{{"kind", r.Kind}, {"name", r.Name}} {
		check.Required(at.Child(part.name), part.value)
		check.Valid(at.Child(part.name), part.value, content.IsPathSegmentName)
	}
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
