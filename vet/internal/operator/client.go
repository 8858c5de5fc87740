package operator

import (
	"go/ast"
	"go/types"
	"strings"
)

// Call is a call of a client, or of a function that wraps one: the function has the name of a
// client's method, and the method's options are its last parameters.
type Call struct {
	*ast.CallExpr
	Function *Function
	// Verb is Get, List, Create, Update, Patch, Apply, Delete or DeleteAllOf.
	Verb string
	// Subresource is the subresource that the call reads or writes, such as status, or ? if it is not known.
	Subresource string
	// Client is the expression that the method is selected from.
	Client ast.Expr
	// Key is the key of a Get, otherwise nil.
	Key ast.Expr
	// Object is the object or list.
	Object ast.Expr
	// Options are the options.
	Options []ast.Expr
}

// verbs are the types of the options, without the suffix Option, of each method.
var verbs = map[string][]string{
	"Get":         {"Get", "SubResourceGet"},
	"List":        {"List"},
	"Create":      {"Create", "SubResourceCreate"},
	"Update":      {"Update", "SubResourceUpdate"},
	"Patch":       {"Patch", "SubResourcePatch"},
	"Apply":       {"Apply", "SubResourceApply"},
	"Delete":      {"Delete"},
	"DeleteAllOf": {"DeleteAllOf"},
}

// call returns the call of a client that a call is, or nil.
func (ti TypeInfo) call(f *Function, c *ast.CallExpr) *Call {
	selector, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	options, ok := verbs[selector.Sel.Name]
	if !ok {
		return nil
	}
	signature, ok := ti.Info.TypeOf(c.Fun).(*types.Signature)
	if !ok || !signature.Variadic() {
		return nil
	}
	last := signature.Params().At(signature.Params().Len() - 1).Type().(*types.Slice).Elem()
	for _, option := range options {
		if !IsType(last, "client", option+"Option") {
			continue
		}
		call := &Call{CallExpr: c, Function: f, Verb: selector.Sel.Name, Client: selector.X}
		if strings.HasPrefix(option, "SubResource") {
			call.Subresource = subresource(selector.X)
			call.Client = clientOf(selector.X)
		}
		object := 1
		if call.Verb == "Get" && call.Subresource == "" {
			object = 2
			if len(c.Args) > 1 {
				call.Key = c.Args[1]
			}
		}
		fixed := signature.Params().Len() - 1
		if len(c.Args) < fixed || object >= fixed {
			return nil
		}
		call.Object, call.Options = c.Args[object], c.Args[fixed:]
		return call
	}
	return nil
}

// subresource returns the name of the subresource that a client is for.
func subresource(client ast.Expr) string {
	if call, ok := ast.Unparen(client).(*ast.CallExpr); ok {
		switch CalleeName(call) {
		case "Status":
			return "status"
		case "SubResource":
			if len(call.Args) == 1 {
				if literal, ok := call.Args[0].(*ast.BasicLit); ok {
					return strings.Trim(literal.Value, "\"`")
				}
			}
		}
	}
	return "?"
}

// clientOf returns the client that made the client of a subresource.
func clientOf(client ast.Expr) ast.Expr {
	if call, ok := ast.Unparen(client).(*ast.CallExpr); ok {
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
			return selector.X
		}
	}
	return client
}

// Writes reports whether the call writes.
func (c *Call) Writes() bool { return c.Verb != "Get" && c.Verb != "List" }

// Spread reports whether the call passes its options as a slice.
func (c *Call) Spread() bool { return c.Ellipsis.IsValid() }

// isOneOfSeveral reports whether the client is a field beside another client, and neither embedded
// nor just called Client.
func (c *Call) isOneOfSeveral(receiver *types.Var) bool {
	selector, ok := ast.Unparen(c.Client).(*ast.SelectorExpr)
	named := Named(receiver.Type())
	if !ok || named == nil || strings.EqualFold(selector.Sel.Name, "Client") {
		return false
	}
	structure, ok := named.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	clients := 0
	for f := range structure.Fields() {
		if IsType(f.Type(), "client", "Client") {
			clients++
		}
	}
	return clients > 1
}

// OfReconciler reports whether the client is the method's receiver or a field of it. A client that
// is passed to a function or made by it may be one of another cluster.
func (ti TypeInfo) OfReconciler(c *Call) bool {
	receiver := c.Function.Receiver()
	if receiver == nil || ti.Root(c.Client) != receiver {
		return false
	}
	if c.isOneOfSeveral(receiver) {
		return false
	}
	name := strings.ToLower(types.ExprString(c.Client))
	for _, other := range []string{"remote", "target", "workload", "tracker", "seed", "shoot", "member", "infra", "hub", "spoke", "guest", "virtual", "tenant", "downstream"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	return true
}
