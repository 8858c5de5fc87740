package fieldrules

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// PublicIP refuses unspecified, loopback and link-local addresses.
func PublicIP(ip netip.Addr, text string, fldPath *Path, name string) field.ErrorList {
	for _, bad := range [...]struct {
		is  bool
		why string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%s)", text)},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if bad.is {
			return field.ErrorList{field.Invalid(fldPath.ChildField(name), text, bad.why)}
		}
	}
	return nil
}

// LoadBalancerAddress checks an address of a load balancer in a status, at the path of the entry. If it is strict, an IP
// that is not among the known ones is in the canonical format.
func LoadBalancerAddress(ip, hostname string, strict bool, known []string, fldPath *Path) field.ErrorList {
	var errs field.ErrorList
	if ip != "" {
		errs = append(errs, validation.IsValidIPForLegacyField(fldPath.ChildField("ip"), ip, strict, known)...)
	}
	if hostname == "" {
		return errs
	}
	errs = append(errs, Invalid(validation.IsDNS1123Subdomain(hostname), hostname, fldPath, "hostname")...)
	if netutils.ParseIPSloppy(hostname) != nil {
		errs = append(errs, field.Invalid(fldPath.ChildField("hostname"), hostname, "must be a DNS name, not an IP address"))
	}
	return errs
}

// IPWarnings returns the warnings for an address that is valid but not in its canonical format, and none for an invalid one.
func IPWarnings(ip string, path *field.Path) []string {
	if netutils.ParseIPSloppy(ip) == nil {
		return nil
	}
	return validation.GetWarningsForIP(path, ip)
}

// CIDRWarnings is IPWarnings for a network.
func CIDRWarnings(cidr string, path *field.Path) []string {
	if _, _, err := netutils.ParseCIDRSloppy(cidr); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, cidr)
}
