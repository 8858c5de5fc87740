package controlplane

import (
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables admission plugins that need a controller that does not run. ServiceAccount requires the
// service account "default" in new namespaces. StorageObjectInUseProtection adds finalizers, and TaintNodesByCondition
// a taint, and controllers must remove them. A plugin stays enabled if Options.Admission enables it by name.
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
