package arena

import (
	"reflect"
	"testing"
	"unsafe"
)

// Variables are zero and nobody else's, whether they are alone or in a slab.
func TestNew(t *testing.T) {
	type variable struct {
		p *int
		n int32
	}
	typ, bytes := NewType(reflect.TypeFor[variable]()), NewType(reflect.TypeFor[byte]())
	for _, dedicated := range []bool{false, true} {
		a := Arena{Dedicated: dedicated}
		want, seen := 0, map[*variable]bool{}
		for round := range 100 {
			count := []int{1, 0, 3, 17, 1000}[round%5]
			want += count*int(typ.Size) + 1
			*(*byte)(a.New(&bytes, 1)) = 0xff
			for _, v := range unsafe.Slice((*variable)(a.New(&typ, count)), count) {
				if v != (variable{}) {
					t.Fatalf("a variable is %v", v)
				}
			}
			all := unsafe.Slice((*variable)(a.New(&typ, count)), count)
			want += count * int(typ.Size)
			for i := range all {
				if seen[&all[i]] {
					t.Fatal("a variable is allocated twice")
				}
				seen[&all[i]] = true
				all[i] = variable{new(int), 7}
			}
		}
		if a.Allocated != want {
			t.Errorf("%d bytes were counted, want %d", a.Allocated, want)
		}
	}
}

// Variables that are returned as values are zero and can be set. New does not return them, too.
func TestNewValue(t *testing.T) {
	typ := NewType(reflect.TypeFor[[4]int]())
	for _, dedicated := range []bool{false, true} {
		a := Arena{Dedicated: dedicated}
		seen := map[*[4]int]bool{}
		for i := range 100 {
			v := a.NewValue(&typ)
			p := v.Addr().Interface().(*[4]int)
			if *p != ([4]int{}) || seen[p] {
				t.Fatalf("variable %d is %v, or was allocated before: %v", i, *p, seen[p])
			}
			v.Set(reflect.ValueOf([4]int{1, 2, 3, 4}))
			q := (*[4]int)(a.New(&typ, 1))
			if *q != ([4]int{}) || seen[q] || p == q {
				t.Fatalf("the variable after %d is %v, or was allocated before: %v", i, *q, seen[q])
			}
			seen[p], seen[q], *q = true, true, [4]int{5}
		}
		if want := 200 * int(typ.Size); a.Allocated != want {
			t.Errorf("%d bytes were counted, want %d", a.Allocated, want)
		}
	}
}

func TestBytes(t *testing.T) {
	var a Arena
	first, second := a.Bytes(10), a.Bytes(20)
	if len(first) != 0 || cap(first) != 10 || cap(second) != 20 {
		t.Errorf("capacities are %d and %d", cap(first), cap(second))
	}
	_, second = append(first, "0123456789"...), append(second, "abc"...)
	if string(second) != "abc" {
		t.Errorf("got %q", second)
	}
}
