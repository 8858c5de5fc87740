package admissionregistration

import (
	"cmp"
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

	"flyball.dev/apiserver/kinds/check"
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

// compile checks that an expression compiles.
//
//upstream:pkg/apis/admissionregistration/validation.validateCELCondition
func compile(at check.Field, c cel.Compiler, e expression, with cel.OptionalVariableDeclarations) {
	compiled(at, c.CompileCELExpression(e, with, environment.NewExpressions), cmp.Or(e.written, e.text))
}

//upstream:pkg/apis/admissionregistration/validation.convertCELErrorToValidationError
func compiled(at check.Field, result cel.CompilationResult, text string) {
	switch err := result.Error; {
	case err == nil:
	case err.Type == apiservercel.ErrorTypeRequired:
		at.Required(err.Detail)
	case err.Type == apiservercel.ErrorTypeInvalid:
		at.Invalid(text, err.Detail)
	default:
		at.Report(field.InternalError(at.Path.Field(), err))
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
func matchConditions(list check.Field, conditions []admissionv1.MatchCondition, params bool) {
	if n := len(conditions); n > maxMatchConditions {
		list.TooMany(n, maxMatchConditions)
	}
	var names fieldrules.Seen[string]
	for i, c := range conditions {
		name, condition := list.Index(i).Child("name"), list.Index(i).Child("expression")
		if e := strings.TrimSpace(c.Expression); e == "" {
			condition.Required("")
		} else {
			compile(condition, stateless(), expression{text: e, types: boolean},
				cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
		}
		check.Required(name, c.Name)
		check.IfSet(name, c.Name, check.QualifiedName)
		if c.Name != "" && !names.Add(c.Name) {
			name.Duplicate(c.Name)
		}
	}
}

// variables checks the variables of a policy, and adds them to the compiler.
//
//upstream:pkg/apis/admissionregistration/validation.validateVariable
func variables(list check.Field, c *cel.CompositedCompiler, vars []admissionv1.Variable, params bool) {
	for i, v := range vars {
		name, value := list.Index(i).Child("name"), list.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(v.Name) == "":
			name.Required("name is not specified")
		case !isIdentifier(v.Name):
			name.Invalid(v.Name, "must be a valid CEL identifier")
		}
		if strings.TrimSpace(v.Expression) == "" {
			value.Required("expression is not specified")
			continue
		}
		compiled(value, c.CompileAndStoreVariable(expression{name: v.Name, text: v.Expression, types: anyValue},
			cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, environment.NewExpressions), v.Expression)
	}
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
func paramKind(at check.Field, k admissionv1.ParamKind) {
	apiVersion, kind := at.Child("apiVersion"), at.Child("kind")
	group, version, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		apiVersion.Required("")
	case strings.Contains(version, "/"):
		apiVersion.Invalid(k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion)
	default:
		if group != "" {
			joined(apiVersion, group, validation.IsDNS1123Subdomain(group), "")
		}
		if version == "" {
			apiVersion.Invalid(k.APIVersion, "version must be specified")
		} else {
			joined(apiVersion, version, validation.IsDNS1035Label(version), "")
		}
	}
	if k.Kind == "" {
		kind.Required("")
	} else {
		joined(kind, k.Kind, validation.IsDNS1035Label(strings.ToLower(k.Kind)), "may have mixed case, but should otherwise match: ")
	}
}

// joined reports all messages as one error.
func joined(at check.Field, value string, messages []string, prefix string) {
	if len(messages) > 0 {
		at.Invalid(value, prefix+strings.Join(messages, ","))
	}
}
