package reflectutil

import "testing"

func TestIsNil(t *testing.T) {
	for _, v := range []any{nil, (*int)(nil), map[string]int(nil), []int(nil), (chan int)(nil), (func())(nil)} {
		if !IsNil(v) {
			t.Errorf("%T is not nil", v)
		}
	}
	for _, v := range []any{0, new(int), map[string]int{}, []int{}, make(chan int), func() {}, struct{ p *int }{}} {
		if IsNil(v) {
			t.Errorf("%T is nil", v)
		}
	}
}
