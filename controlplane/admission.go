package controlplane

import (
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables the plugins whose controllers do not run: ServiceAccount, which
// requires the account "default" in new namespaces, StorageObjectInUseProtection, whose finalizers
// must be removed, and TaintNodesByCondition, whose taint must be. A plugin that is enabled by its name stays enabled.
func (o *Options) admissionOptions() admission.Options {
	options := o.Admission
	for plugin, controller := range map[string]string{
		admission.ServiceAccount:               "serviceaccount",
		admission.StorageObjectInUseProtection: "volume-protection",
		admission.TaintNodesByCondition:        "node-lifecycle",
	} {
		runs := !o.WithoutControllers && !slices.Contains(o.Controllers.Without, controller)
		if !runs && !slices.Contains(options.Enable, plugin) {
			options.Disable = append(slices.Clone(options.Disable), plugin)
		}
	}
	return options
}
