package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/operator"
)

// many are the kinds of which clusters have many objects in many namespaces.
var many = map[string]bool{
	"k8s.io/api/core/v1.Pod": true, "k8s.io/api/core/v1.Secret": true, "k8s.io/api/core/v1.ConfigMap": true,
	"k8s.io/api/core/v1.Event": true, "k8s.io/api/core/v1.Service": true, "k8s.io/api/core/v1.Endpoints": true,
	"k8s.io/api/core/v1.ServiceAccount": true, "k8s.io/api/core/v1.PersistentVolumeClaim": true,
	"k8s.io/api/apps/v1.Deployment": true, "k8s.io/api/apps/v1.ReplicaSet": true,
	"k8s.io/api/apps/v1.StatefulSet": true, "k8s.io/api/batch/v1.Job": true,
	"k8s.io/api/coordination/v1.Lease": true, "k8s.io/api/discovery/v1.EndpointSlice": true,
	"k8s.io/api/rbac/v1.RoleBinding": true, "k8s.io/api/rbac/v1.Role": true,
}

// ListScope reports Lists of all objects of such a kind, where they run for every event and a loop
// then looks for some of the objects by their metadata.
var ListScope = listScope()

func listScope() *analysis.Analyzer {
	all := false
	a := rule("listscope", "a List of all objects of the cluster for each event, to find some of them", func(p *pass) {
		for _, f := range p.Functions {
			if !p.Hot(f) {
				continue
			}
			for _, call := range f.Calls {
				kind := p.KindOf(call.Object)
				if call.Verb == "List" && kind != nil && many[element(kind)] && p.scope(call) == (scope{}) && (all || p.searches(f, call)) {
					p.reportf(call, "every event lists every %s of the cluster: give a namespace, a selector or an index",
						strings.TrimSuffix(kind.Obj().Name(), "List"))
				}
			}
		}
	})
	a.Flags.BoolVar(&all, "all", false, "report also lists of all objects that are used as a whole")
	return a
}

// searches reports whether a loop over a list that follows it compares the metadata of the objects.
func (p *pass) searches(f *operator.Function, list *operator.Call) bool {
	variable := p.Object(list.Object)
	return variable != nil && contains(f.Decl.Body, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		return ok && loop.Pos() > list.End() && p.Root(loop.X) == variable && contains(loop.Body, comparesMetadata)
	})
}

// comparesMetadata reports whether a node is an equality of the name, the namespace, a label or the
// node of an object with something other than a constant.
func comparesMetadata(n ast.Node) bool {
	binary, ok := n.(*ast.BinaryExpr)
	if !ok || binary.Op != token.EQL && binary.Op != token.NEQ {
		return false
	}
	if _, constant := binary.Y.(*ast.BasicLit); constant {
		return false
	}
	return contains(binary.X, isMetadataField) || contains(binary.Y, isMetadataField)
}

func isMetadataField(n ast.Node) bool {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch selector.Sel.Name {
	case "Name", "GetName", "Namespace", "GetNamespace", "Labels", "GetLabels", "NodeName":
		return true
	}
	return false
}

// element returns the path and name of the type whose list a type is.
func element(list *types.Named) string {
	if list.Obj().Pkg() == nil {
		return ""
	}
	return list.Obj().Pkg().Path() + "." + strings.TrimSuffix(list.Obj().Name(), "List")
}

// scope is what the options of a List narrow it by.
type scope struct{ namespace, selector bool }

// scope returns by what a List is narrowed. What is not known narrows.
func (p *pass) scope(call *operator.Call) scope {
	var s scope
	if call.Spread() {
		return scope{true, true}
	}
	for _, option := range call.Options {
		t, literal := p.Info.TypeOf(option), literalOf(option)
		switch {
		case operator.IsType(t, "client", "Limit"), operator.IsType(t, "client", "GracePeriodSeconds"),
			operator.IsType(t, "client", "PropagationPolicy"):
		case operator.IsType(t, "client", "InNamespace"):
			s.namespace = true
		case literal != nil && operator.IsType(t, "client", "ListOptions"):
			s.namespace = s.namespace || field(literal, "Namespace") != nil
			s.selector = s.selector || field(literal, "LabelSelector") != nil || field(literal, "FieldSelector") != nil ||
				field(literal, "Raw") != nil
		default:
			s.selector = s.selector || !p.isEmptySelector(option)
		}
	}
	return s
}
