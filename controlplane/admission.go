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
		admission.ServiceAccount:               {"serviceaccount-controller"},
		admission.StorageObjectInUseProtection: {"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller", "volumeattributesclass-protection-controller"},
		admission.TaintNodesByCondition:        {"node-lifecycle-controller"},
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
