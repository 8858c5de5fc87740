package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// recorded is a plugin that records its calls.
type recorded struct {
	*admission.Handler
	name  string
	fails bool
	calls *[]string
}

func (p recorded) call(step string) error {
	*p.calls = append(*p.calls, step+" "+p.name)
	if p.fails {
		return errors.New(p.name)
	}
	return nil
}

type mutatingPlugin struct{ recorded }

func (p mutatingPlugin) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return p.call("admit")
}

type validatingPlugin struct{ recorded }

func (p validatingPlugin) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return p.call("validate")
}

type bothPlugin struct {
	mutatingPlugin
	validatingPlugin
}

func (p bothPlugin) Handles(o admission.Operation) bool { return p.mutatingPlugin.Handles(o) }

// TestChain: the chain calls the same plugins as upstream's chain, which asks each plugin about each request.
func TestChain(t *testing.T) {
	operations := []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}
	for _, fails := range []int{-1, 1, 4, 7} {
		for handled := range 1 << len(operations) {
			var calls []string
			var plugins []admission.Interface
			for i := range 9 {
				var of []admission.Operation
				for bit, o := range operations {
					if (handled+i)>>bit&1 == 1 {
						of = append(of, o)
					}
				}
				r := recorded{admission.NewHandler(of...), fmt.Sprint(i), i == fails, &calls}
				plugins = append(plugins, []admission.Interface{mutatingPlugin{r}, validatingPlugin{r}, bothPlugin{mutatingPlugin{r}, validatingPlugin{r}}}[i%3])
			}
			ours, theirs := newChain(plugins), admission.NewChainHandler(plugins...)
			for _, o := range append(operations, "OTHER") {
				if ours.Handles(o) != theirs.Handles(o) {
					t.Errorf("handles %s: %t", o, ours.Handles(o))
				}
				a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", o, nil, false, nil)
				call := func(c interface {
					admission.MutationInterface
					admission.ValidationInterface
				}) (called []string, admit, validate error) {
					calls = nil
					admit, validate = c.Admit(t.Context(), a, nil), c.Validate(t.Context(), a, nil)
					return calls, admit, validate
				}
				called, admit, validate := call(ours)
				want, wantAdmit, wantValidate := call(theirs)
				if fmt.Sprint(admit, validate) != fmt.Sprint(wantAdmit, wantValidate) || !slices.Equal(called, want) {
					t.Errorf("%s: %v, %v, calls %q; want %v, %v, calls %q", o, admit, validate, called, wantAdmit, wantValidate, want)
				}
			}
		}
	}
}
