package controlplane

import (
	"net/netip"
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions disables the plugins whose controllers do not run: ServiceAccount, which
// requires the account "default" in new namespaces, and StorageObjectInUseProtection, whose
// finalizers must be removed. A plugin that is enabled by its name stays enabled.
func (o *Options) admissionOptions() admission.Options {
	options := o.Admission
	for plugin, controller := range map[string]string{
		admission.ServiceAccount:               "serviceaccount",
		admission.StorageObjectInUseProtection: "volume-protection",
	} {
		runs := !o.WithoutControllers && !slices.Contains(o.Controllers.Without, controller)
		if !runs && !slices.Contains(options.Enable, plugin) {
			options.Disable = append(slices.Clone(options.Disable), plugin)
		}
	}
	return options
}

// address returns the address of the HTTPS server, or the zero value without one.
func (c *ControlPlane) address() netip.AddrPort {
	if c.https == nil {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(c.https.listener.Addr().String())
	return address
}
