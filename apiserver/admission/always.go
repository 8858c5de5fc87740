package admission

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
)

// newNothing returns the plugin AlwaysAdmit, which does nothing.
//
//upstream:plugin/pkg/admission/admit.alwaysAdmit
func newNothing(Environment) admission.Interface { return admission.NewHandler() }

// alwaysDeny refuses every write.
//
//upstream:plugin/pkg/admission/deny.alwaysDeny
type alwaysDeny struct{ *admission.Handler }

func newAlwaysDeny(Environment) admission.Interface {
	return alwaysDeny{admission.NewHandler(admission.Create, admission.Update, admission.Delete, admission.Connect)}
}

// Admit implements [admission.MutationInterface].
func (alwaysDeny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errors.New("admission control is denying all modifications"))
}
