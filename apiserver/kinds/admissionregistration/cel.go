package admissionregistration

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// expression is a CEL expression of a policy, with the types that its value may have.
type expression struct {
	name    string // of a variable, or empty
	text    string
	written string // the text that an error quotes; by default text
	types   []*celgo.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return e.types }

// Types of the values of expressions.
var (
	boolean          = []*celgo.Type{celgo.BoolType}
	text             = []*celgo.Type{celgo.StringType}
	optionalText     = []*celgo.Type{celgo.StringType, celgo.NullType}
	anyValue         = []*celgo.Type{celgo.AnyType, celgo.DynType}
	appliedObject    = []*celgo.Type{celgo.ObjectType("Object")}
	jsonPatchPatches = []*celgo.Type{celgo.ListType(celgo.ObjectType("JSONPatch"))}
)

// stateless compiles expressions without variables.
//
//upstream:pkg/apis/admissionregistration/validation.getStrictStatelessCELCompiler
//upstream:pkg/apis/admissionregistration/validation.createCompiler
var stateless = sync.OnceValue(func() cel.Compiler {
	return cel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// newComposited returns a compiler that keeps variables for the expressions after them.
func newComposited() *cel.CompositedCompiler {
	c, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		panic(err) // it depends on constants only
	}
	return c
}

// compile returns the errors of an expression.
//
//upstream:pkg/apis/admissionregistration/validation.validateCELCondition
func compile(c cel.Compiler, e expression, with cel.OptionalVariableDeclarations, w *fieldrules.Path, name string) field.ErrorList {
	return celErrors(c.CompileCELExpression(e, with, environment.NewExpressions), cmp.Or(e.written, e.text), w, name)
}

//upstream:pkg/apis/admissionregistration/validation.convertCELErrorToValidationError
func celErrors(result cel.CompilationResult, text string, w *fieldrules.Path, name string) field.ErrorList {
	switch err := result.Error; {
	case err == nil:
		return nil
	case err.Type == apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(w.ChildField(name), err.Detail)}
	case err.Type == apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(w.ChildField(name), text, err.Detail)}
	default:
		return field.ErrorList{field.InternalError(w.ChildField(name), err)}
	}
}

// maxMatchConditions is the limit of the match conditions of a policy or a webhook.
const maxMatchConditions = 64

// matchConditions checks the field matchConditions. The conditions of a policy with parameters can refer to
// the parameters.
//
//upstream:pkg/apis/admissionregistration/validation.validateMatchConditions
//upstream:pkg/apis/admissionregistration/validation.validateMatchCondition
//upstream:pkg/apis/admissionregistration/validation.validateMatchConditionsExpression
func matchConditions(conditions []admissionv1.MatchCondition, params bool, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := w.Child("matchConditions")
	if n := len(conditions); n > maxMatchConditions {
		errs = append(errs, field.TooMany(list.Field(), n, maxMatchConditions))
	}
	var names fieldrules.Seen[string]
	for i, c := range conditions {
		at := list.Index(i)
		if e := strings.TrimSpace(c.Expression); e == "" {
			errs = append(errs, field.Required(at.ChildField("expression"), ""))
		} else {
			errs = append(errs, compile(stateless(), expression{text: e, types: boolean},
				cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, &at, "expression")...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.ChildField("name"), ""))
			continue
		}
		errs = append(errs, fieldrules.QualifiedName(c.Name, &at, "name")...)
		if !names.Add(c.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), c.Name))
		}
	}
	return errs
}

// variables checks the variables of a policy, and adds them to the compiler.
//
//upstream:pkg/apis/admissionregistration/validation.validateVariable
func variables(c *cel.CompositedCompiler, list []admissionv1.Variable, params bool, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	all := w.Child("variables")
	for i, v := range list {
		at := all.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.ChildField("name"), "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(at.ChildField("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.ChildField("expression"), "expression is not specified"))
			continue
		}
		result := c.CompileAndStoreVariable(expression{name: v.Name, text: v.Expression, types: anyValue},
			cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, environment.NewExpressions)
		errs = append(errs, celErrors(result, v.Expression, &at, "expression")...)
	}
	return errs
}

//upstream:pkg/apis/admissionregistration/validation.celIdentRegex
var identifier = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")

// reserved are the words of CEL that cannot be identifiers.
//
//upstream:pkg/apis/admissionregistration/validation.celReserved
var reserved = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")

//upstream:pkg/apis/admissionregistration/validation.isCELIdentifier
func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}

// paramKind checks the kind of a policy's parameters.
//
//upstream:pkg/apis/admissionregistration/validation.validateParamKind
func paramKind(k *admissionv1.ParamKind, w *fieldrules.Path) field.ErrorList {
	if k == nil {
		return nil
	}
	at := w.Child("paramKind")
	var errs field.ErrorList
	group, version, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(at.ChildField("apiVersion"), ""))
	case strings.Contains(version, "/"):
		errs = append(errs, field.Invalid(at.ChildField("apiVersion"), k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if group != "" {
			errs = append(errs, joined(validation.IsDNS1123Subdomain(group), group, &at, "apiVersion", "")...)
		}
		if version == "" {
			errs = append(errs, field.Invalid(at.ChildField("apiVersion"), k.APIVersion, "version must be specified"))
		} else {
			errs = append(errs, joined(validation.IsDNS1035Label(version), version, &at, "apiVersion", "")...)
		}
	}
	if k.Kind == "" {
		return append(errs, field.Required(at.ChildField("kind"), ""))
	}
	return append(errs, joined(validation.IsDNS1035Label(strings.ToLower(k.Kind)), k.Kind, &at, "kind", "may have mixed case, but should otherwise match: ")...)
}

// joined returns one error with all messages, or nil if there are none.
func joined(messages []string, value string, w *fieldrules.Path, name, prefix string) field.ErrorList {
	if len(messages) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.ChildField(name), value, fmt.Sprint(prefix, strings.Join(messages, ",")))}
}
