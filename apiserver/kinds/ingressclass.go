package kinds

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
