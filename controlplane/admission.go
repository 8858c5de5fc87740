package controlplane

import (
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables the plugins that need a controller that does not run: ServiceAccount
// requires the service account "default" in new namespaces, StorageObjectInUseProtection adds finalizers, and
// TaintNodesByCondition adds a taint, which controllers remove. A plugin that is enabled by its name
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
