package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		ValidateUpdate: func(c, old *networkingv1.IngressClass) (errs field.ErrorList) {
			check.Immutable(check.Object(&errs).Child("spec").Child("controller"), c.Spec.Controller, old.Spec.Controller)
			return errs
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
func validateIngressClass(c *networkingv1.IngressClass) (errs field.ErrorList) {
	spec := check.Object(&errs).Child("spec")
	controller := spec.Child("controller")
	if len(c.Spec.Controller) > maxControllerName {
		controller.TooLong(maxControllerName)
	}
	controller.Report(validation.IsDomainPrefixedPath(controller.Path.Field(), c.Spec.Controller)...)
	check.Optional(spec.Child("parameters"), c.Spec.Parameters, classParameters)
	return errs
}

//upstream:pkg/apis/networking/validation.validateIngressClassParametersReference
func classParameters(at check.Field, p networkingv1.IngressClassParametersReference) {
	scope, namespace := at.Child("scope"), at.Child("namespace")
	check.Optional(at.Child("apiGroup"), p.APIGroup, check.DNSName)
	namedSegment(at.Child("kind"), p.Kind)
	namedSegment(at.Child("name"), p.Name)
	switch {
	case p.Scope == nil:
		scope.Required("")
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster:
		check.Forbid(namespace, p.Namespace != nil, "`parameters.scope` is set to 'Cluster'")
	case *p.Scope != networkingv1.IngressClassParametersReferenceScopeNamespace:
		scope.NotSupported(*p.Scope, "Cluster", "Namespace")
	case p.Namespace == nil:
		namespace.Required("`parameters.scope` is set to 'Namespace'")
	default:
		check.Valid(namespace, *p.Namespace, validation.IsDNS1123Label)
	}
}

// namedSegment checks a name that can be any segment of a URL's path.
func namedSegment(at check.Field, name string) {
	if name == "" {
		at.Required("")
		return
	}
	check.Valid(at, name, content.IsPathSegmentName)
}
