package references

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

const (
	// kindsPackage is the package with which our code describes kinds.
	kindsPackage = "flyball.dev/apiserver/kinds"
	// generatedFile has the validation that Kubernetes generates from the tags of its types.
	generatedFile   = "zz_generated.validations.go"
	generatedPrefix = "Validate_"
	// customPrefix begins the names of functions that generated functions call and that are written by hand.
	customPrefix = "ValidateCustom_"
)

// described returns the generated validations of the types that a file describes as kinds: Validate_Pod for Type: &corev1.Pod{}.
// A release need not have them.
func described(name string, files *token.FileSet, file *ast.File) []Directive {
	paths := importPaths(file)
	var directives []Directive
	for _, declaration := range file.Decls {
		ast.Inspect(declaration, func(node ast.Node) bool {
			if pkg, typ, ok := describedType(node); ok {
				if version, ok := strings.CutPrefix(paths[pkg], "k8s.io/api/"); ok {
					directives = append(directives, Directive{
						Reference: Reference{Folder: "pkg/apis/" + version, Name: generatedPrefix + typ},
						File:      name, Line: files.Position(node.Pos()).Line, Name: declared(declaration),
					})
				}
			}
			return true
		})
	}
	return directives
}

// describedType returns the type of the field Type: &PKG.TYP{} of a composite literal.
func describedType(node ast.Node) (pkg, typ string, ok bool) {
	field, ok := node.(*ast.KeyValueExpr)
	if !ok {
		return "", "", false
	}
	if key, ok := field.Key.(*ast.Ident); !ok || key.Name != "Type" {
		return "", "", false
	}
	pointer, ok := field.Value.(*ast.UnaryExpr)
	if !ok {
		return "", "", false
	}
	literal, ok := pointer.X.(*ast.CompositeLit)
	if !ok {
		return "", "", false
	}
	return qualified(literal.Type)
}

// qualified returns the parts of PKG.NAME.
func qualified(node ast.Node) (pkg, name string, ok bool) {
	selector, ok := node.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	ident, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return ident.Name, selector.Sel.Name, true
}

// declared returns the first name of a declaration.
func declared(declaration ast.Decl) string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		return funcName(d)
	case *ast.GenDecl:
		if len(d.Specs) > 0 {
			if names := specNames(d.Specs[0]); len(names) > 0 {
				return names[0]
			}
		}
	}
	return "_"
}

// importPaths returns the paths of a file's imports by their names. An import without a name has the last element of its path.
func importPaths(file *ast.File) map[string]string {
	paths := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		paths[name] = path
	}
	return paths
}

// uses returns, for each generated validation in a file, the other validations that it uses, and the variables with the values that
// they allow.
func uses(file *ast.File) map[string][]Reference {
	paths := importPaths(file)
	local := map[string]bool{}
	for _, declaration := range file.Decls {
		local[declared(declaration)] = true
	}
	validates := func(name string) bool {
		return strings.HasPrefix(name, generatedPrefix) || strings.HasPrefix(name, customPrefix)
	}
	result := map[string][]Reference{}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, generatedPrefix) {
			continue
		}
		var used []Reference
		ast.Inspect(function.Body, func(node ast.Node) bool {
			var ref Reference
			if pkg, name, ok := qualified(node); ok && validates(name) {
				ref = Reference{Folder: paths[pkg], Name: name}
			} else if ident, ok := node.(*ast.Ident); ok && (local[ident.Name] || validates(ident.Name)) && ident.Name != function.Name.Name {
				ref = Reference{Name: ident.Name}
			} else {
				return true
			}
			if !slices.Contains(used, ref) {
				used = append(used, ref)
			}
			return false
		})
		result[function.Name.Name] = used
	}
	return result
}

// mirrored returns what our code mirrors in the release: what the directives name, and the generated validations of our kinds. A
// generated validation covers what it uses, unless another directive names that.
func (r *Release) mirrored(module *Module) ([]Mirrored, error) {
	g := grouping{at: map[Reference]int{}}
	for _, d := range module.Directives {
		g.add(d)
	}
	named := len(g.mirrored)
	stop := func(ref Reference) bool { i, ok := g.at[ref]; return ok && i < named }
	for _, kind := range module.Kinds {
		if _, err := r.Text(kind.Reference); isNotFound(err) || stop(kind.Reference) {
			continue
		} else if err != nil {
			return nil, err
		}
		g.add(kind)
		if err := r.addUsed(&g, kind, stop); err != nil {
			return nil, err
		}
	}
	for _, d := range module.Directives {
		if strings.HasPrefix(d.Reference.Name, generatedPrefix) {
			if err := r.addUsed(&g, d, stop); err != nil {
				return nil, err
			}
		}
	}
	return g.mirrored, nil
}

// addUsed adds what the generated validation of a directive uses, directly or not.
func (r *Release) addUsed(g *grouping, from Directive, stop func(Reference) bool) error {
	seen := map[Reference]bool{from.Reference: true}
	var visit func(ref Reference) error
	visit = func(ref Reference) error {
		s, err := r.source(ref)
		if isNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		for _, used := range s.uses[ref.Name] {
			if used.Folder == "" {
				used.Folder = ref.Folder
			}
			used.Folder = strings.TrimPrefix(used.Folder, Kubernetes+"/")
			if seen[used] || stop(used) {
				continue
			}
			seen[used] = true
			place := from
			place.Reference = used
			g.add(place)
			if err := visit(used); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(from.Reference)
}
