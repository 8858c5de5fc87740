package controlplane

import (
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables the plugin ServiceAccount, which requires the account "default", if the
// controller that creates this account in new namespaces does not run.
func (o *Options) admissionOptions() admission.Options {
	options := o.Admission
	if o.WithoutControllers || slices.Contains(o.Controllers.Without, "serviceaccount") {
		options.Disable = append(slices.Clone(options.Disable), admission.ServiceAccount)
	}
	return options
}
