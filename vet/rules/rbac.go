package rules

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"flyball.dev/vet/internal/grants"
	"flyball.dev/vet/internal/operator"
)

// RBAC reports calls of the client that no marker of the module grants, nor a role that is written
// by hand. A package without markers has its roles from elsewhere and is left alone.
var RBAC = rule("rbac", "a kind that is read or written without an RBAC marker for it", func(p rbacPass) {
	if len(p.Reconcilers) == 0 {
		return
	}
	granted := p.markers()
	if len(granted) == 0 {
		return
	}
	folder := filepath.Dir(p.analysis.Fset.Position(p.Files[0].Package).Filename)
	root, _ := grants.ModuleRoot(folder)
	for other, found := range grants.InModule(root) {
		if other != folder {
			granted = append(granted, found...)
		}
	}
	var needed []*need
	for _, call := range slices.Concat(p.Calls(), p.mutations()) {
		if !p.OfReconciler(call) || call.Subresource == "?" {
			continue
		}
		needed = p.addNeed(needed, call.CallExpr, call.Object, call.Subresource, verbsOf(call), granted)
	}
	for _, f := range p.Functions {
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && len(call.Args) > 0 && p.CallsRuntime(call, "builder", "For", "Owns", "Watches") {
				needed = p.addNeed(needed, call.Args[0], call.Args[0], "", []string{"watch", "get", "list"}, granted)
			}
			return true
		})
	}
	slices.SortFunc(needed, func(a, b *need) int { return int(a.at.Pos() - b.at.Pos()) })
	for _, n := range needed {
		p.missing(n)
	}
})

// need is the access to a resource that a reconciler needs and no marker grants.
type need struct {
	at       ast.Node // the first that needs a verb
	group    string
	known    bool // whether the group is the one of the resource
	resource string
	verbs    []string
}

// rbacPass is a pass of the rule RBAC.
type rbacPass struct{ *pass }

// addNeed adds one of the verbs that a call needs of an object's resource, unless it is granted. A read is of a
// cache, as a rule, which gets, lists and watches.
func (p rbacPass) addNeed(needed []*need, at ast.Node, object ast.Expr, subresource string, verbs []string, granted []grants.Grant) []*need {
	kind := p.KindOf(object)
	if kind == nil || !isAPIType(kind) {
		return needed
	}
	resource := resourceOf(strings.TrimSuffix(kind.Obj().Name(), "List"))
	if subresource != "" {
		resource += "/" + subresource
	}
	group, known := groupOf(kind.Obj().Pkg().Path())
	if slices.ContainsFunc(granted, func(g grants.Grant) bool { return g.Allows(group, known, resource, verbs) }) {
		return needed
	}
	wanted := verbs[:1]
	if slices.Contains(readVerbs, verbs[0]) && subresource == "" {
		wanted = readVerbs
	}
	for _, n := range needed {
		if n.group == group && n.known == known && n.resource == resource {
			n.verbs = append(n.verbs, wanted...)
			if at.Pos() < n.at.Pos() {
				n.at = at
			}
			return needed
		}
	}
	return append(needed, &need{at, group, known, resource, slices.Clone(wanted)})
}

// mutations returns the calls of a client that CreateOrUpdate and CreateOrPatch make.
func (p rbacPass) mutations() []*operator.Call {
	var all []*operator.Call
	for _, f := range p.Functions {
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 || !p.CallsRuntime(call, "controller/controllerutil", "CreateOrUpdate", "CreateOrPatch") {
				return true
			}
			for _, verb := range []string{"Get", "Create", strings.TrimPrefix(operator.CalleeName(call), "CreateOr")} {
				all = append(all, &operator.Call{
					CallExpr: call, Function: f, Verb: verb, Client: call.Args[1], Object: call.Args[2],
				})
			}
			return true
		})
	}
	return all
}

// markers returns what the markers of the package grant, and reports groups that are none.
func (p rbacPass) markers() []grants.Grant {
	var all []grants.Grant
	for _, file := range p.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if granted, ok := grants.OfMarker(comment.Text); ok {
					for _, group := range granted.Groups {
						if name, version, ok := strings.Cut(group, "/"); ok {
							p.reportf(comment, "the group of a role has no version, so this grants nothing: write %s without /%s", name, version)
						}
					}
					all = append(all, granted)
				}
			}
		}
	}
	return all
}

// allVerbs are the verbs in the order in which markers have them.
var allVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// readVerbs are the verbs of a cache.
var readVerbs = allVerbs[:3]

// missing reports what no marker grants, with one marker for all of it.
func (p rbacPass) missing(n *need) {
	verbs := slices.DeleteFunc(slices.Clone(allVerbs), func(verb string) bool { return !slices.Contains(n.verbs, verb) })
	list := strings.Join(verbs, ", ")
	if !n.known {
		p.reportf(n.at, "no marker of the module grants %s of %s: add +kubebuilder:rbac:groups=GROUP,resources=%s,verbs=%s",
			list, n.resource, n.resource, strings.Join(verbs, ";"))
		return
	}
	group := n.group
	if group == "" {
		group = `""`
	}
	marker := fmt.Sprintf("+kubebuilder:rbac:groups=%s,resources=%s,verbs=%s", group, n.resource, strings.Join(verbs, ";"))
	at := p.Reconcilers[0].Reconcile.Decl.Pos()
	if doc := p.Reconcilers[0].Reconcile.Decl.Doc; doc != nil {
		at = doc.Pos()
	}
	p.report(n.at, fmt.Sprintf("no marker of the module grants %s of %s: add %s", list, n.resource, marker),
		[]analysis.SuggestedFix{replace("Add the marker", at, at, "// "+marker+"\n\n")}...)
}

// verbsOf returns verbs of RBAC. A call needs one of them. A cache may serve a read, and lists and
// watches.
func verbsOf(call *operator.Call) []string {
	switch call.Verb {
	case "Get", "List":
		return []string{strings.ToLower(call.Verb), "get", "list", "watch"}
	case "Apply":
		return []string{"patch"}
	case "DeleteAllOf":
		return []string{"deletecollection"}
	case "Update", "Patch":
		if call.Subresource == "status" { // both are a write of the status
			return []string{strings.ToLower(call.Verb), "update", "patch"}
		}
	}
	return []string{strings.ToLower(call.Verb)}
}

// groupOf returns the API group of the kinds in a package of k8s.io/api.
func groupOf(path string) (group string, known bool) {
	rest, ok := strings.CutPrefix(path, "k8s.io/api/")
	if !ok {
		return "", false
	}
	group, _, _ = strings.Cut(rest, "/")
	switch group {
	case "core":
		return "", true
	case "apps", "batch", "autoscaling", "policy", "extensions":
		return group, true
	case "rbac":
		return "rbac.authorization.k8s.io", true
	case "flowcontrol":
		return "flowcontrol.apiserver.k8s.io", true
	}
	return group + ".k8s.io", true
}

// resourceOf returns the usual resource of a kind.
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "endpoints":
		return name
	case strings.HasSuffix(name, "s"), strings.HasSuffix(name, "x"), strings.HasSuffix(name, "ch"):
		return name + "es"
	case strings.HasSuffix(name, "y") && !strings.HasSuffix(name, "ay") && !strings.HasSuffix(name, "ey"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}

// isAPIType reports whether a type is one of an object or of a list of objects.
func isAPIType(kind *types.Named) bool {
	if kind.Obj().Pkg() == nil || operator.IsGeneric(kind) {
		return false
	}
	structure, ok := kind.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	found := 0
	for f := range structure.Fields() {
		if f.Embedded() && (operator.IsNamed(f.Type(), operator.Meta, "TypeMeta") || operator.IsNamed(f.Type(), operator.Meta, "ObjectMeta") ||
			operator.IsNamed(f.Type(), operator.Meta, "ListMeta")) {
			found++
		}
	}
	return found == 2
}
