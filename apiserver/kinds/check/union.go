package check

// Union has the fields of an object that exclude each other.
type Union []struct {
	Name string
	Set  bool
}

// First returns the name of the first field that is set, or "".
func (u Union) First() string {
	for _, m := range u {
		if m.Set {
			return m.Name
		}
	}
	return ""
}

// ForbidOthers checks that no other field of f is set besides the first.
func (u Union) ForbidOthers(f Field, detail string) {
	others := false
	for _, m := range u {
		Forbid(f.Child(m.Name), m.Set && others, detail)
		others = others || m.Set
	}
}
