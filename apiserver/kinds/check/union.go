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

// ForbidOthers checks that at most one field is set. It reports each field after the first that is set.
func (u Union) ForbidOthers(f Field, detail string) {
	isSet := false
	for _, m := range u {
		Forbid(f.Child(m.Name), m.Set && isSet, detail)
		isSet = isSet || m.Set
	}
}
