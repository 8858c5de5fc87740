package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
)

// chain calls plugins in their order. It knows in advance which plugins handle an operation, because most plugins have
// nothing to do for most requests, and asking each plugin would cost more than its answer.
//
//upstream:k8s.io/apiserver/pkg/admission.chainAdmissionHandler
type chain map[admission.Operation]operationChain

// operationChain has the plugins that handle an operation.
type operationChain struct {
	mutating   []admission.MutationInterface
	validating []admission.ValidationInterface
}

// newChain returns a chain of plugins.
func newChain(plugins []admission.Interface) chain {
	c := chain{}
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		var o operationChain
		handled := false
		for _, p := range plugins {
			if !p.Handles(operation) {
				continue
			}
			handled = true
			if m, ok := p.(admission.MutationInterface); ok {
				o.mutating = append(o.mutating, m)
			}
			if v, ok := p.(admission.ValidationInterface); ok {
				o.validating = append(o.validating, v)
			}
		}
		if handled {
			c[operation] = o
		}
	}
	return c
}

// Handles implements [admission.Interface].
func (c chain) Handles(operation admission.Operation) bool {
	_, ok := c[operation]
	return ok
}

// Admit implements [admission.MutationInterface]. It ends with the first error.
func (c chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, p := range c[a.GetOperation()].mutating {
		if err := p.Admit(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements [admission.ValidationInterface]. It ends with the first error.
func (c chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, p := range c[a.GetOperation()].validating {
		if err := p.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}
