package lab

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Expression returns an invariant that is an expression of CEL. The expression has the type bool. Its function all
// returns the objects of a kind, as [State.All] does: all("Pod").exists(p, p.metadata.name == "web-0").
func Expression(name, expression string) (Invariant, error) {
	program, err := compile(expression, cel.Function("all", cel.Overload("all_kind", []*cel.Type{cel.DynType, cel.StringType}, cel.ListType(cel.DynType),
		cel.BinaryBinding(objectsOf))), cel.Variable("state", cel.DynType), cel.Macros(allOfState))
	if err != nil {
		return Invariant{}, fmt.Errorf("the invariant %q: %w", name, err)
	}
	return Invariant{Name: name, Check: func(s *State) error {
		holds, err := evaluate(program, map[string]any{"state": stateValue{s}})
		if err == nil && !holds {
			err = errors.New(expression + " is false")
		}
		return err
	}}, nil
}

// allOfState expands all("Pod") to all(state, "Pod"): functions of CEL know nothing but their arguments.
var allOfState = cel.GlobalMacro("all", 1, func(f cel.MacroExprFactory, _ celast.Expr, args []celast.Expr) (celast.Expr, *cel.Error) {
	return f.NewCall("all", f.NewIdent("state"), args[0]), nil
})

// stateValue is a State as a value of CEL.
type stateValue struct{ *State }

var stateType = types.NewOpaqueType("lab.State")

func (s stateValue) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("a state has no other type")
}
func (s stateValue) ConvertToType(ref.Type) ref.Val { return types.NewErr("a state has no other type") }
func (s stateValue) Equal(other ref.Val) ref.Val    { return types.Bool(other == ref.Val(s)) }
func (s stateValue) Type() ref.Type                 { return stateType }
func (s stateValue) Value() any                     { return s.State }

// objectsOf is the function all of CEL.
func objectsOf(state, kind ref.Val) ref.Val {
	s, ok := state.(stateValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(state)
	}
	objects := []any{}
	for _, o := range s.All(fmt.Sprint(kind.Value())) {
		objects = append(objects, o.Object)
	}
	return types.DefaultTypeAdapter.NativeToValue(objects)
}

// conditions are the compiled conditions of points, by their text.
type conditions struct {
	mu       sync.Mutex
	programs map[string]cel.Program
}

// program returns the program of a condition.
func (c *conditions) program(text string) (cel.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.programs[text]; ok {
		return p, nil
	}
	p, err := compile(text, cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		return nil, err
	}
	if c.programs == nil {
		c.programs = map[string]cel.Program{}
	}
	c.programs[text] = p
	return p, nil
}

// holds evaluates a condition. A condition that asks for a field that an object lacks does not hold.
func (c *conditions) holds(text string, object, old map[string]any) bool {
	p, err := c.program(text)
	if err != nil {
		return false // compile has refused the schedule
	}
	variables := map[string]any{"object": object, "oldObject": nil}
	if old != nil {
		variables["oldObject"] = old
	}
	holds, err := evaluate(p, variables)
	return holds && err == nil
}

// compile compiles an expression of type bool.
func compile(expression string, options ...cel.EnvOption) (cel.Program, error) {
	env, err := cel.NewEnv(append(options, cel.OptionalTypes(), ext.Strings(), ext.Sets())...)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%s is of type %s, want bool", expression, t)
	}
	return env.Program(ast)
}

func evaluate(program cel.Program, variables map[string]any) (bool, error) {
	value, _, err := program.Eval(variables)
	if err != nil {
		return false, err
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the value is a %s, want bool", value.Type().TypeName())
	}
	return holds, nil
}
