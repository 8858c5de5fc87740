package controlplane

import (
	"net/netip"
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

// address returns the address of the HTTPS server, or the zero value without one.
func (c *ControlPlane) address() netip.AddrPort {
	if c.https == nil {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(c.https.listener.Addr().String())
	return address
}
