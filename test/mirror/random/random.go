// Package random makes API objects at random, for the tests that hold ours and Kubernetes's code against each other.
//
//	go test ./scheduling -objects 1000000 -seed 7
//	go test ./scheduling -seed 7 -case 6202
package random

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	objects = flag.Int("objects", 0, "the number of cases of each comparison; 0 is the comparison's own")
	seed    = flag.Uint64("seed", 1, "the seed of the random numbers")
	only    = flag.Int("case", -1, "the number of the only case to compare; -1 is all")
)

// Compare calls compare n times, or as often as the flag -objects says, each time with a source of its own.
// It stops when compare has failed.
func Compare(t *testing.T, n int, compare func(s *Source)) {
	t.Helper()
	if *objects > 0 {
		n = *objects
	}
	first := 0
	if *only >= 0 {
		first, n = *only, *only+1
	}
	for i := first; i < n; i++ {
		s := &Source{Rand: rand.New(rand.NewPCG(*seed, uint64(i))), Now: time.Now(), number: i}
		compare(s)
		if t.Failed() {
			t.Fatalf("to see it again: %s", s.Flags())
		}
	}
}

// Seen counts outcomes, so that a test can require each of them.
type Seen map[string]int

// Require fails the test for each outcome that has not occurred, unless it compares one case only.
func (c Seen) Require(t *testing.T, outcomes ...string) {
	t.Helper()
	t.Log(c)
	if *only >= 0 {
		return
	}
	for _, o := range outcomes {
		if c[o] == 0 {
			t.Errorf("no case with the outcome %q", o)
		}
	}
}

// Source makes values.
type Source struct {
	*rand.Rand
	Now    time.Time
	Values map[string][]string // strings by the name of their type, such as v1.PodPhase, or of the field
	number int
}

// Flags returns the flags that select the case.
func (s *Source) Flags() string { return fmt.Sprintf("-seed %d -case %d", *seed, s.number) }

// Chance reports true in percent of the calls.
func (s *Source) Chance(percent int) bool { return s.IntN(100) < percent }

// Pick returns one of the values.
func Pick[T any](s *Source, values ...T) T { return values[s.IntN(len(values))] }

// Some returns up to n values of a list.
func Some[T any](s *Source, n int, values ...T) []T {
	var list []T
	for range s.IntN(n + 1) {
		list = append(list, Pick(s, values...))
	}
	return list
}

// Fill sets the fields of what a pointer points to.
func (s *Source) Fill(to any) { s.fill(reflect.ValueOf(to).Elem(), "", 0) }

// deepest is the depth below which fields stay empty.
const deepest = 9

func (s *Source) fill(v reflect.Value, field string, depth int) {
	if s.fillKnown(v) || depth > deepest {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if s.Chance(60) {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem(), field, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && s.Chance(75) {
				s.fill(v.Field(i), f.Name, depth+1)
			}
		}
	case reflect.Slice:
		n := Pick(s, 0, 1, 1, 2, 3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			s.fill(v.Index(i), field, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range s.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			s.fill(key, field, depth+1)
			s.fill(value, field, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(s.text(v.Type(), field))
	case reflect.Bool:
		v.SetBool(s.Chance(50))
	case reflect.Int32, reflect.Int64:
		v.SetInt(Pick[int64](s, 0, 0, 1, 1, 2, 3, 5, 30, 80, 443, 3600, -1))
	case reflect.Uint8:
		v.SetUint(uint64(s.IntN(256)))
	}
}

// fillKnown sets values of types with a meaning of their own.
func (s *Source) fillKnown(v reflect.Value) bool {
	switch to := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*to = resource.MustParse(Pick(s, "0", "1", "2", "100m", "1500m", "1Gi", "1500Mi", "3k", "10"))
	case *intstr.IntOrString:
		*to = Pick(s, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(80), intstr.FromString("25%"), intstr.FromString("http"))
	case *metav1.Time:
		*to = metav1.NewTime(s.Time())
	case *metav1.MicroTime:
		*to = metav1.NewMicroTime(s.Time())
	case *metav1.Duration:
		to.Duration = time.Duration(s.IntN(5000)) * time.Second
	case *metav1.TypeMeta, *metav1.FieldsV1, *runtime.RawExtension:
	default:
		return false
	}
	return true
}

// Time returns a time before now, half a second from the next change of its age.
func (s *Source) Time() time.Time {
	unit := Pick(s, time.Second, time.Minute, time.Hour, 24*time.Hour)
	return s.Now.Add(-time.Duration(s.IntN(120))*unit - time.Second/2)
}

func (s *Source) text(t reflect.Type, field string) string {
	for _, key := range []string{t.String(), field} {
		if values := s.Values[key]; len(values) > 0 {
			return Pick(s, values...)
		}
	}
	return Pick(s, "", "a", "b", "c", "web", "default", "example.com/a", "v1", "10.0.0.1", "True", strings.Repeat("long-", 14))
}
