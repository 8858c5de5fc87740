package surface

import (
	"fmt"
	"go/types"
	"strings"
)

// name is the import path and name under which programs know a type.
func (p *printer) name(o *types.TypeName) string {
	if public, ok := p.public[o]; ok {
		return public
	}
	if o.Pkg() == nil {
		return o.Name()
	}
	return p.path(o.Pkg().Path()) + "." + o.Name()
}

// typ prints a type without aliases and without the names of parameters.
func (p *printer) typ(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return p.name(t.Obj()) + p.arguments(t.TypeArgs())
	case *types.TypeParam:
		return fmt.Sprintf("$%d", t.Index())
	case *types.Pointer:
		return "*" + p.typ(t.Elem())
	case *types.Slice:
		return "[]" + p.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), p.typ(t.Elem()))
	case *types.Map:
		return "map[" + p.typ(t.Key()) + "]" + p.typ(t.Elem())
	case *types.Chan:
		return [...]string{"chan ", "chan<- ", "<-chan "}[t.Dir()] + p.typ(t.Elem())
	case *types.Signature:
		return "func" + p.signature(t)
	case *types.Struct:
		var fields []string
		for i := range t.NumFields() {
			fields = append(fields, t.Field(i).Name()+" "+p.typ(t.Field(i).Type()))
		}
		return "struct{" + strings.Join(fields, "; ") + "}"
	case *types.Interface:
		var methods []string
		for i := range t.NumMethods() {
			methods = append(methods, t.Method(i).Name()+p.signature(t.Method(i).Signature()))
		}
		return "interface{" + strings.Join(methods, "; ") + p.terms(t) + "}"
	default:
		return t.String()
	}
}

// terms prints the type constraints of an interface, without its methods.
func (p *printer) terms(t *types.Interface) string {
	var parts []string
	if t.IsComparable() {
		parts = append(parts, "comparable")
	}
	for i := range t.NumEmbeddeds() {
		if u, ok := t.EmbeddedType(i).(*types.Union); ok {
			var terms []string
			for j := range u.Len() {
				tilde := ""
				if u.Term(j).Tilde() {
					tilde = "~"
				}
				terms = append(terms, tilde+p.typ(u.Term(j).Type()))
			}
			parts = append(parts, strings.Join(terms, "|"))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, "; ")
}

func (p *printer) signature(s *types.Signature) string {
	results := ""
	switch s.Results().Len() {
	case 0:
	case 1:
		results = " " + p.typ(s.Results().At(0).Type())
	default:
		results = " " + p.tuple(s.Results(), false)
	}
	return p.parameters(s.TypeParams()) + p.tuple(s.Params(), s.Variadic()) + results
}

func (p *printer) tuple(t *types.Tuple, variadic bool) string {
	var parts []string
	for i := range t.Len() {
		typ := t.At(i).Type()
		if slice, ok := typ.(*types.Slice); ok && variadic && i == t.Len()-1 {
			parts = append(parts, "..."+p.typ(slice.Elem()))
			continue
		}
		parts = append(parts, p.typ(typ))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (p *printer) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var parts []string
	for i := range list.Len() {
		parts = append(parts, p.typ(list.At(i).Constraint()))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (p *printer) arguments(list *types.TypeList) string {
	if list.Len() == 0 {
		return ""
	}
	var parts []string
	for i := range list.Len() {
		parts = append(parts, p.typ(list.At(i)))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
