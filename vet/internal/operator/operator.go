// Package operator recognises the parts of an operator in type-checked source: its reconcilers,
// the functions that they call, and the calls of the client. It answers the questions that several
// rules ask about them: about syntax, objects, calls, names, errors and finalizers, each in its
// file. The package knows two runtimes by their types: this module's ctrl and controller-runtime.
package operator

import (
	"go/ast"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzer finds the parts of an operator in a package. Its result is a [*Package]. It reports
// nothing.
var Analyzer = &analysis.Analyzer{
	Name:       "operator",
	Doc:        "operator: find reconcilers and calls of the client, for the rules of flyball vet",
	Run:        run,
	ResultType: reflect.TypeFor[*Package](),
}

// TypeInfo answers questions about statements and expressions that need the types, and not the declarations of the package.
type TypeInfo struct {
	Info *types.Info
}

// Package has the declarations of an operator's package, and answers questions that need them: about its functions, its
// reconcilers, its kinds and its calls of the client. Generated files, test files and files that import a package for
// tests are left out.
type Package struct {
	TypeInfo
	Types       *types.Package
	Files       []*ast.File
	Functions   []*Function
	Reconcilers []*Reconciler
	// Owned and For are the kinds that are passed to a builder's Owns and For.
	Owned, For []*types.Named

	// objects is set if there are reconcilers of objects instead of requests.
	objects   bool
	functions map[*types.Func]*Function
	calls     map[*ast.CallExpr]*Call
	mapped    []*Function
	hot       map[*Function]bool
	used      map[*Function]bool
}

// Function is a function or method with a body. Function literals belong to the function that they
// are declared in.
type Function struct {
	Decl   *ast.FuncDecl
	Object *types.Func
	// References are the functions of the same package that it mentions: those that it calls, and
	// those that it passes on as values.
	References []*Function
	// Calls are its calls of the client, in the order of the source.
	Calls []*Call
}

// Reconciler is a type with a method Reconcile that returns a Result and an error.
type Reconciler struct {
	Type      *types.TypeName
	Reconcile *Function
	// Request is the parameter with the request, or nil if it has no name.
	Request *types.Var
	// Queued reports whether a controller calls it, for requests of its queue. Others are parts of a
	// reconcile, which are chosen by their callers and may live as long as one call.
	Queued bool
	// Reachable are Reconcile and the functions of the package that it reaches.
	Reachable []*Function
}

// run finds the parts of the operator in a package.
func run(pass *analysis.Pass) (any, error) {
	p := &Package{
		Types:     pass.Pkg,
		TypeInfo:  TypeInfo{pass.TypesInfo},
		functions: map[*types.Func]*Function{},
		calls:     map[*ast.CallExpr]*Call{},
		hot:       map[*Function]bool{},
		used:      map[*Function]bool{},
	}
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.Package).Filename
		if strings.HasSuffix(name, "_test.go") || ast.IsGenerated(file) || supportsTests(file) {
			continue
		}
		p.Files = append(p.Files, file)
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.FuncDecl); ok && d.Body != nil {
				if object, ok := p.Info.Defs[d.Name].(*types.Func); ok {
					f := &Function{Decl: d, Object: object}
					p.Functions = append(p.Functions, f)
					p.functions[object] = f
				}
			}
		}
	}
	for _, f := range p.Functions {
		p.inspect(f)
	}
	for _, f := range p.Functions {
		if r := p.reconciler(f); r != nil {
			p.Reconcilers = append(p.Reconcilers, r)
			for _, reached := range r.Reachable {
				p.hot[reached], p.used[reached] = true, true
			}
		}
	}
	for _, f := range p.mapped {
		p.hot[f] = true
	}
	return p, nil
}

// supportsTests reports whether a file imports a package that only tests use.
func supportsTests(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		path := strings.Trim(spec.Path.Value, "\"`")
		return path == "testing" || strings.HasPrefix(path, "github.com/onsi/") || strings.HasPrefix(path, "github.com/stretchr/testify/")
	})
}

// inspect finds the references and the calls of a function.
func (p *Package) inspect(f *Function) {
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if object, ok := p.Info.Uses[n].(*types.Func); ok {
				if g := p.functions[object.Origin()]; g != nil && !slices.Contains(f.References, g) {
					f.References = append(f.References, g)
				}
			}
		case *ast.CallExpr:
			if call := p.call(f, n); call != nil {
				f.Calls = append(f.Calls, call)
				p.calls[n] = call
			}
			p.builderCall(n)
			p.mapFunction(n)
			p.objects = p.objects || p.CallsRuntime(n, "reconcile", "AsReconciler")
		}
		return true
	})
}

// reconciler returns the reconciler with a function as its method Reconcile, or nil.
func (p *Package) reconciler(f *Function) *Reconciler {
	signature := f.Object.Signature()
	if f.Object.Name() != "Reconcile" || signature.Recv() == nil || signature.Results().Len() != 2 ||
		!IsType(signature.Results().At(0).Type(), "reconcile", "Result") || signature.Params().Len() == 0 {
		return nil
	}
	named := Named(signature.Recv().Type())
	if named == nil {
		return nil
	}
	r := &Reconciler{Type: named.Obj(), Reconcile: f, Reachable: reach(f), Queued: p.isQueued(signature)}
	if request := signature.Params().At(signature.Params().Len() - 1); request.Name() != "" && request.Name() != "_" {
		r.Request = request
	}
	return r
}

// isQueued reports whether the last parameter of a method Reconcile is a request, or an object where
// the package makes reconcilers of such methods.
func (p *Package) isQueued(signature *types.Signature) bool {
	last := types.Unalias(signature.Params().At(signature.Params().Len() - 1).Type())
	if _, ok := last.(*types.TypeParam); ok || p.objects {
		return true
	}
	named := Named(last)
	return named == nil || strings.HasSuffix(named.Obj().Name(), "Request")
}

// reach returns a function and those that it reaches.
func reach(f *Function) []*Function {
	reached := []*Function{f}
	for i := 0; i < len(reached); i++ {
		for _, g := range reached[i].References {
			if !slices.Contains(reached, g) {
				reached = append(reached, g)
			}
		}
	}
	return reached
}

// builderCall records the kinds that are passed to a builder.
func (p *Package) builderCall(call *ast.CallExpr) {
	callee, ok := typeutil.Callee(p.Info, call).(*types.Func)
	if !ok || len(call.Args) == 0 || callee.Pkg() == nil || !inRuntime(callee.Pkg().Path(), "builder") {
		return
	}
	named := p.KindOf(call.Args[0])
	if named == nil {
		return
	}
	switch callee.Name() {
	case "Owns":
		p.Owned = append(p.Owned, named)
	case "For":
		p.For = append(p.For, named)
	}
}

// mapFunction records the functions that map events to requests.
func (p *Package) mapFunction(call *ast.CallExpr) {
	callee := typeutil.Callee(p.Info, call)
	if callee == nil || callee.Pkg() == nil || !inRuntime(callee.Pkg().Path(), "handler") ||
		!strings.Contains(callee.Name(), "EnqueueRequestsFromMapFunc") || len(call.Args) == 0 {
		return
	}
	ast.Inspect(call.Args[0], func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if object, ok := p.Info.Uses[id].(*types.Func); ok {
				if f := p.functions[object.Origin()]; f != nil {
					p.mapped = append(p.mapped, reach(f)...)
				}
			}
		}
		return true
	})
}

// Hot reports whether a function runs in a reconcile or maps an event to requests.
func (p *Package) Hot(f *Function) bool { return p.hot[f] }

// Reconciles reports whether a function is a Reconcile or is reached from one.
func (p *Package) Reconciles(f *Function) bool { return p.used[f] }

// Calls returns all calls of the client in the package.
func (p *Package) Calls() []*Call {
	var all []*Call
	for _, f := range p.Functions {
		all = append(all, f.Calls...)
	}
	return all
}

// ClientCall returns the call of a client that a call is, or nil.
func (p *Package) ClientCall(call *ast.CallExpr) *Call { return p.calls[call] }

// Declared returns the function of this package that a call calls, or nil.
func (p *Package) Declared(call *ast.CallExpr) *Function {
	if object, ok := typeutil.Callee(p.Info, call).(*types.Func); ok {
		return p.functions[object.Origin()]
	}
	return nil
}
