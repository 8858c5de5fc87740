package controlplane

import (
	"net/netip"
	"slices"

	"flyball.dev/apiserver/admission"
)

// admissionOptions turns off the plugin that gives pods their service accounts where nothing creates the
// account "default" in new namespaces: without the loops, or without that one.
func (o *Options) admissionOptions() admission.Options {
	chosen := o.Admission
	if o.WithoutControllers || slices.Contains(o.Controllers.Without, "serviceaccount") {
		chosen.Disable = append(slices.Clone(chosen.Disable), admission.ServiceAccount)
	}
	return chosen
}

// address is where HTTPS is served, or the zero value.
func (c *ControlPlane) address() netip.AddrPort {
	if c.https == nil {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(c.https.listener.Addr().String())
	return address
}
