package finalizer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
)

type stub struct {
	result Result
	err    error
	called bool
}

func (s *stub) Finalize(context.Context, client.Object) (Result, error) {
	s.called = true
	return s.result, s.err
}

func TestFinalize(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		deleted bool
		present []string
		a, b    stub
		want    Result
		left    []string
		called  [2]bool
		err     bool
	}{
		"lives, without":      {want: Result{Updated: true}, left: []string{"a", "b"}},
		"lives, with":         {present: []string{"a", "x", "b"}, left: []string{"a", "x", "b"}},
		"goes":                {deleted: true, present: []string{"a", "x", "b"}, want: Result{Updated: true}, left: []string{"x"}, called: [2]bool{true, true}},
		"goes, one was there": {deleted: true, present: []string{"b"}, want: Result{Updated: true}, called: [2]bool{false, true}},
		"goes, none was":      {deleted: true, present: []string{"x"}, left: []string{"x"}},
		"one fails": {
			deleted: true, present: []string{"a", "b"}, a: stub{err: broken}, b: stub{result: Result{StatusUpdated: true}},
			want: Result{Updated: true, StatusUpdated: true}, left: []string{"a"}, called: [2]bool{true, true}, err: true,
		},
		"all fail, and say what they did": {
			deleted: true, present: []string{"a", "b"}, a: stub{err: broken, result: Result{StatusUpdated: true}}, b: stub{err: broken},
			want: Result{StatusUpdated: true}, left: []string{"a", "b"}, called: [2]bool{true, true}, err: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFinalizers()
			for key, s := range map[string]*stub{"a": &c.a, "b": &c.b} {
				if err := f.Register(key, s); err != nil {
					t.Fatal(err)
				}
			}
			obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: c.present}}
			if c.deleted {
				obj.DeletionTimestamp = ptr.To(metav1.Now())
			}
			got, err := f.Finalize(t.Context(), obj)
			if got != c.want || !slices.Equal(obj.Finalizers, c.left) || (err != nil) != c.err || c.err && !errors.Is(err, broken) {
				t.Errorf("got %+v, %v, finalizers %v", got, err, obj.Finalizers)
			}
			if called := [2]bool{c.a.called, c.b.called}; called != c.called {
				t.Errorf("called: %v", called)
			}
		})
	}
}

func TestRegisterNil(t *testing.T) {
	err := NewFinalizers().Register("example.com/nil", nil)
	if err == nil || !strings.Contains(err.Error(), "example.com/nil") {
		t.Errorf("error %v", err)
	}
}

func TestRegisterTwice(t *testing.T) {
	f := NewFinalizers()
	if f.Register("a", &stub{}) != nil || f.Register("a", &stub{}) == nil {
		t.Error("a key can be registered once and no more")
	}
}
