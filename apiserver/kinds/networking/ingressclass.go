package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

const maxControllerName = 250

// IngressClasses describes the kind IngressClass.
//
//upstream:pkg/registry/networking/ingressclass.ingressClassStrategy
//upstream:pkg/apis/networking/v1.SetDefaults_IngressClass
//upstream:pkg/apis/networking/validation.ValidateIngressClassUpdate
//upstream:pkg/printers/internalversion.printIngressClass
func IngressClasses() kinds.Kind {
	return kinds.Of[*networkingv1.IngressClass]{
		Type: &networkingv1.IngressClass{}, List: &networkingv1.IngressClassList{},
		Plural: "ingressclasses", Cluster: true, Generation: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(c *networkingv1.IngressClass) {
			if c.Spec.Parameters != nil {
				fieldrules.DefaultPointer(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
			}
		},
		Validate: validateIngressClass,
		ValidateUpdate: func(c, old *networkingv1.IngressClass) field.ErrorList {
			return fieldrules.Immutable(c.Spec.Controller, old.Spec.Controller, &fieldrules.Spec, "controller")
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Controller", "string", "Who serves the ingresses of this class."),
			columns.Column("Parameters", "string", "The object that has more settings of this class."),
		},
		Row: func(c *networkingv1.IngressClass) []any {
			p := c.Spec.Parameters
			if p == nil {
				return []any{c.Spec.Controller, columns.None}
			}
			kind := p.Kind
			if p.APIGroup != nil {
				kind += "." + *p.APIGroup
			}
			return []any{c.Spec.Controller, kind + "/" + p.Name}
		},
	}
}

// validateIngressClass checks the controller and the reference to parameters.
//
//upstream:pkg/apis/networking/validation.ValidateIngressClass
//upstream:pkg/apis/networking/validation.validateIngressClassSpec
//upstream:pkg/apis/networking/validation.validateIngressClassParametersReference
func validateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	var errs field.ErrorList
	if n := c.Spec.Controller; len(n) > maxControllerName {
		errs = append(errs, field.TooLong(fieldrules.Spec.ChildField("controller"), n, maxControllerName))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(fieldrules.Spec.ChildField("controller"), c.Spec.Controller)...)
	p := c.Spec.Parameters
	if p == nil {
		return errs
	}
	at := fieldrules.Spec.Child("parameters")
	if p.APIGroup != nil {
		errs = append(errs, fieldrules.DNSName(*p.APIGroup, &at, "apiGroup")...)
	}
	for _, part := range [...]struct{ name, value string }{{"kind", p.Kind}, {"name", p.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(at.ChildField(part.name), ""))
		} else {
			errs = append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(part.value, false), part.value, &at, part.name)...)
		}
	}
	if p.Scope == nil {
		return append(errs, field.Required(at.ChildField("scope"), ""))
	}
	switch *p.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			return append(errs, field.Required(at.ChildField("namespace"), "`parameters.scope` is set to 'Namespace'"))
		}
		return append(errs, fieldrules.Invalid(validation.IsDNS1123Label(*p.Namespace), *p.Namespace, &at, "namespace")...)
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			return append(errs, field.Forbidden(at.ChildField("namespace"), "`parameters.scope` is set to 'Cluster'"))
		}
		return errs
	}
	return append(errs, fieldrules.Supported(*p.Scope, &at, "scope",
		networkingv1.IngressClassParametersReferenceScopeCluster,
		networkingv1.IngressClassParametersReferenceScopeNamespace)...)
}
