package fieldrules

// Seen tells which elements of a list occur again. It searches a short list and indexes a long one, so that a list
// takes time in proportion to its length. The zero value has seen nothing.
type Seen[K comparable] struct {
	few  [8]K
	n    int
	many map[K]struct{}
}

// Add adds an element, and reports whether it is new.
func (s *Seen[K]) Add(k K) bool {
	if s.Has(k) {
		return false
	}
	switch {
	case s.many != nil:
		s.many[k] = struct{}{}
	case s.n < len(s.few):
		s.few[s.n] = k
		s.n++
	default:
		s.many = make(map[K]struct{}, 4*len(s.few))
		for _, known := range s.few {
			s.many[known] = struct{}{}
		}
		s.many[k] = struct{}{}
	}
	return true
}

// Has reports whether an element was added.
func (s *Seen[K]) Has(k K) bool {
	if s.many != nil {
		_, ok := s.many[k]
		return ok
	}
	for i := range s.n {
		if s.few[i] == k {
			return true
		}
	}
	return false
}
