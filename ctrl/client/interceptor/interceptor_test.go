package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

var (
	errBelow   = errors.New("the client underneath")
	errInstead = errors.New("the function")
)

// below is a client that fails in every method.
type below struct{ client.WithWatch }

func (below) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errBelow
}
func (below) List(context.Context, client.ObjectList, ...client.ListOption) error { return errBelow }
func (below) Create(context.Context, client.Object, ...client.CreateOption) error { return errBelow }
func (below) Delete(context.Context, client.Object, ...client.DeleteOption) error { return errBelow }
func (below) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errBelow
}
func (below) Update(context.Context, client.Object, ...client.UpdateOption) error { return errBelow }
func (below) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errBelow
}
func (below) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errBelow
}
func (below) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errBelow
}
func (below) SubResource(string) client.SubResourceClient { return subBelow{} }

type subBelow struct{}

func (subBelow) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errBelow
}
func (subBelow) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errBelow
}
func (subBelow) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errBelow
}
func (subBelow) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errBelow
}
func (subBelow) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errBelow
}

// call calls each method of c, and names it as its function is named.
func call(c client.WithWatch) map[string]error {
	ctx := context.Background()
	_, watched := c.Watch(ctx, nil)
	return map[string]error{
		"Get":               c.Get(ctx, client.ObjectKey{}, nil),
		"List":              c.List(ctx, nil),
		"Create":            c.Create(ctx, nil),
		"Delete":            c.Delete(ctx, nil),
		"DeleteAllOf":       c.DeleteAllOf(ctx, nil),
		"Update":            c.Update(ctx, nil),
		"Patch":             c.Patch(ctx, nil, nil),
		"Apply":             c.Apply(ctx, nil),
		"Watch":             watched,
		"SubResourceGet":    c.SubResource("x").Get(ctx, nil, nil),
		"SubResourceCreate": c.SubResource("x").Create(ctx, nil, nil),
		"SubResourceUpdate": c.SubResource("x").Update(ctx, nil),
		"SubResourcePatch":  c.SubResource("x").Patch(ctx, nil, nil),
		"SubResourceApply":  c.SubResource("x").Apply(ctx, nil),
	}
}

// TestEachFunction sets one function at a time and checks that it alone is called, with the wrapped
// client.
func TestEachFunction(t *testing.T) {
	fields := reflect.TypeFor[interceptor.Funcs]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if field.Name == "SubResource" {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			var funcs interceptor.Funcs
			reflect.ValueOf(&funcs).Elem().Field(i).Set(reflect.MakeFunc(field.Type, func(args []reflect.Value) []reflect.Value {
				if got := fmt.Sprintf("%T", args[1].Interface()); got != "interceptor_test.below" {
					t.Errorf("given a %s", got)
				}
				out := make([]reflect.Value, field.Type.NumOut())
				for j := range out {
					out[j] = reflect.Zero(field.Type.Out(j))
				}
				out[len(out)-1] = reflect.ValueOf(&errInstead).Elem()
				return out
			}))
			for name, err := range call(interceptor.NewClient(below{}, funcs)) {
				want := errBelow
				if name == field.Name {
					want = errInstead
				}
				if err != want {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
		})
	}
}

// TestSubResource checks that a whole client can be replaced.
func TestSubResource(t *testing.T) {
	var requested []string
	c := interceptor.NewClient(below{}, interceptor.Funcs{
		SubResource: func(c client.WithWatch, name string) client.SubResourceClient {
			requested = append(requested, name)
			return c.SubResource(name)
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return errInstead
		},
	})
	if err := c.Status().Update(context.Background(), nil); err != errBelow || len(requested) != 1 || requested[0] != "status" {
		t.Errorf("error %v, requested %q", err, requested)
	}
}
