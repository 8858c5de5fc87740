package surface

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A library is a set of packages with a common prefix of their import paths. Paths are printed relative to it.
type library struct {
	pattern string
	dir     string // where the pattern is resolved, if not here
	path    func(importPath string) string
}

var (
	peer   = library{pattern: "sigs.k8s.io/controller-runtime/...", path: peerPath}
	own    = library{pattern: "flyball.dev/ctrl/...", path: ownPath}
	compat = library{pattern: "sigs.k8s.io/controller-runtime/...", dir: "../../compat", path: func(p string) string {
		return ownPath(peerPath(p))
	}}
)

func peerPath(p string) string {
	p = strings.TrimPrefix(p, "sigs.k8s.io/controller-runtime")
	return strings.TrimPrefix(strings.TrimPrefix(p, "/"), "pkg/")
}

func ownPath(p string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, "flyball.dev/ctrl"), "/")
}

// lines prints the surface of a library, sorted.
func (l library) lines() ([]string, error) {
	mode := packages.NeedName | packages.NeedTypes | packages.NeedImports
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: l.dir}, l.pattern)
	if err != nil {
		return nil, err
	}
	p := printer{library: l, public: map[*types.TypeName]string{}}
	var public []*types.Package
	for _, pkg := range loaded {
		if len(pkg.Errors) > 0 {
			return nil, pkg.Errors[0]
		}
		if importable(pkg) {
			public = append(public, pkg.Types)
		}
	}
	for _, pkg := range public {
		p.nameAliased(pkg)
	}
	for _, pkg := range public {
		p.print(pkg)
	}
	slices.Sort(p.out)
	return slices.Compact(p.out), nil
}

// importable reports whether programs may import a package; examples are not meant for that.
func importable(pkg *packages.Package) bool {
	folders := strings.Split(pkg.PkgPath, "/")
	return pkg.Name != "main" && !slices.Contains(folders, "internal") && !slices.Contains(folders, "examples")
}

// A printer writes lines. Type names that are declared in internal packages go by the public alias
// that leads to them.
type printer struct {
	library
	public map[*types.TypeName]string
	out    []string
}

func (p *printer) add(format string, args ...any) {
	p.out = append(p.out, fmt.Sprintf(format, args...))
}

// nameAliased records the public name of each internal type that pkg has an alias of the same name
// for.
func (p *printer) nameAliased(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		t, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || !t.IsAlias() || !t.Exported() {
			continue
		}
		target, ok := types.Unalias(t.Type()).(*types.Named)
		if !ok || target.Obj().Pkg() == nil || !strings.Contains(target.Obj().Pkg().Path()+"/", "/internal/") {
			continue
		}
		if known, ok := p.public[target.Obj()]; !ok || target.Obj().Name() == name && !strings.HasSuffix(known, "."+name) {
			p.public[target.Obj()] = p.path(pkg.Path()) + "." + name
		}
	}
}

func (p *printer) print(pkg *types.Package) {
	at := p.path(pkg.Path())
	if at == "" {
		at = "."
	}
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			p.add("%s: const %s %s = %s", at, name, p.typ(o.Type()), o.Val())
		case *types.Var:
			p.add("%s: var %s %s", at, name, p.typ(o.Type()))
		case *types.Func:
			p.add("%s: func %s%s", at, name, p.signature(o.Signature()))
		case *types.TypeName:
			p.typeName(at, o)
		}
	}
}

// typeName prints a type: its underlying type, its exported fields, and the methods of its values and pointers,
// including promoted ones.
func (p *printer) typeName(at string, o *types.TypeName) {
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok {
		p.add("%s: type %s = %s", at, o.Name(), p.typ(types.Unalias(o.Type())))
		return
	}
	own := at + "." + o.Name()
	if at == "." {
		own = "." + o.Name()
	}
	if full := p.name(named.Obj()); full != own {
		p.add("%s: type %s = %s", at, o.Name(), p.typ(named))
		return
	}
	head := fmt.Sprintf("%s: type %s%s", at, o.Name(), p.parameters(named.TypeParams()))
	switch u := named.Underlying().(type) {
	case *types.Struct:
		p.add("%s struct", head)
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() {
				p.add("%s struct, %s %s", head, f.Name(), p.typ(f.Type()))
			}
		}
	case *types.Interface:
		p.add("%s interface%s", head, p.terms(u))
		for i := range u.NumMethods() {
			if m := u.Method(i); m.Exported() {
				p.add("%s interface, %s%s", head, m.Name(), p.signature(m.Signature()))
			}
		}
		return
	default:
		p.add("%s %s", head, p.typ(u))
	}
	values := types.NewMethodSet(named)
	pointers := types.NewMethodSet(types.NewPointer(named))
	for i := range pointers.Len() {
		m := pointers.At(i).Obj().(*types.Func)
		if !m.Exported() {
			continue
		}
		receiver := "*"
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = ""
		}
		p.add("%s: method (%s%s) %s%s", at, receiver, o.Name(), m.Name(),
			p.signature(pointers.At(i).Type().(*types.Signature)))
	}
}
