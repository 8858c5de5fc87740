package aliasvar

import "testing"

func TestVar(t *testing.T) {
	original, alias := 1, 1
	v := Var[int]{Original: &original}
	check := func(when string, want int) {
		t.Helper()
		if got := v.Get(); got != want {
			t.Errorf("%s: got %d, want %d", when, got, want)
		}
	}
	check("without an alias", 1)
	v.SetAlias(&alias)
	check("with an alias", 1)
	original = 2
	check("after a write to the original", 2)
	alias = 3
	check("after a write to the alias", 3)
	alias = 1
	check("after the alias was reset", 2)
}
