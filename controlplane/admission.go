package controlplane

import (
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables the plugins whose controllers do not run: ServiceAccount, which
// requires the account "default" in new namespaces, StorageObjectInUseProtection, whose finalizers
// must be removed, and TaintNodesByCondition, whose taint must be. A plugin that is enabled by its name
// stays enabled.
func (o *Options) admissionOptions() admission.Options {
	options := o.Admission
	for plugin, controllers := range map[string][]string{
		admission.ServiceAccount:               {"serviceaccount"},
		admission.StorageObjectInUseProtection: {"pvc-protection", "pv-protection", "volumeattributesclass-protection"},
		admission.TaintNodesByCondition:        {"node-lifecycle"},
	} {
		runs := !o.WithoutControllers && !slices.ContainsFunc(o.Controllers.Without, func(without string) bool {
			return slices.Contains(controllers, without)
		})
		if !runs && !slices.Contains(options.Enable, plugin) {
			options.Disable = append(slices.Clone(options.Disable), plugin)
		}
	}
	return options
}
