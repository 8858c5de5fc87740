package podspec

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
)

// Limits of the options of Windows containers.
const (
	maxCredentialSpec = 64 << 10 // bytes
	maxWindowsDomain  = 256      // characters; a domain must be shorter
	maxWindowsUser    = 104      // characters
)

var (
	controlCharacters = regexp.MustCompile(`[[:cntrl:]]+`)
	netBiosDomain     = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	dnsDomain         = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	reservedInUser    = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	dotsAndSpaces     = regexp.MustCompile(`^[\. ]+$`)
)

// windowsOptions checks the options of Windows containers.
//
//upstream:pkg/apis/core/validation.validateWindowsSecurityContextOptions
func windowsOptions(at check.Field, o *corev1.WindowsSecurityContextOptions) {
	if o == nil {
		return
	}
	if name := o.GMSACredentialSpecName; name != nil {
		check.Messages(at.Child("gmsaCredentialSpecName"), name, validation.IsDNS1123Subdomain(*name))
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		switch {
		case *spec == "":
			at.Child("gmsaCredentialSpec").Invalid(spec, "gmsaCredentialSpec cannot be an empty string")
		case len(*spec) > maxCredentialSpec:
			at.Child("gmsaCredentialSpec").Invalidf(spec, "gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec>>10)
		}
	}
	if name := o.RunAsUserName; name != nil {
		check.Messages(at.Child("runAsUserName"), name, windowsUser(*name))
	}
}

// windowsUser returns the errors of the name of a Windows user, which can have a domain.
func windowsUser(name string) []string {
	domain, user, hasDomain := strings.Cut(name, `\`)
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case controlCharacters.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Contains(user, `\`):
		return []string{"runAsUserName cannot contain more than one backslash"}
	case !hasDomain:
		domain, user = "", name
	}
	var errs []string
	if len(domain) >= maxWindowsDomain {
		errs = append(errs, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxWindowsDomain))
	}
	if hasDomain && !netBiosDomain.MatchString(domain) && !dnsDomain.MatchString(domain) {
		errs = append(errs, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		errs = append(errs, "runAsUserName's User cannot be empty")
	case len(user) > maxWindowsUser:
		errs = append(errs, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxWindowsUser))
	}
	if dotsAndSpaces.MatchString(user) {
		errs = append(errs, "runAsUserName's User cannot contain only periods or spaces")
	}
	if reservedInUser.MatchString(user) {
		errs = append(errs, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return errs
}

// hostProcess checks that all containers of a pod are HostProcess containers if one is.
//
//upstream:pkg/apis/core/validation.validateWindowsHostProcessPod
func hostProcess(spec check.Field, s *corev1.PodSpec) {
	pod := (*bool)(nil)
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		pod = s.SecurityContext.WindowsOptions.HostProcess
	}
	all, host := 0, 0
	for at, c := range each(s) {
		all++
		own := pod
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil && c.SecurityContext.WindowsOptions.HostProcess != nil {
			own = c.SecurityContext.WindowsOptions.HostProcess
		}
		if pod != nil && *pod != *own {
			at.in(spec).Child("securityContext").Child("windowsOptions").Child("hostProcess").Invalidf(*own,
				"pod hostProcess value must be identical if both are specified, was %v", *pod)
		}
		if own != nil && *own {
			host++
		}
	}
	if host == 0 {
		return
	}
	if host != all {
		spec.Invalid("", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !s.HostNetwork {
		spec.Child("hostNetwork").Invalid(false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// place is a container in the lists of a pod.
type place struct {
	list string
	i    int
}

// in returns the field of the container in the spec of its pod.
func (p place) in(spec check.Field) check.Field { return spec.Child(p.list).Index(p.i) }

// each returns all containers of a pod.
func each(s *corev1.PodSpec) iter.Seq2[place, *corev1.Container] {
	return func(yield func(place, *corev1.Container) bool) {
		for i := range s.InitContainers {
			if !yield(place{"initContainers", i}, &s.InitContainers[i]) {
				return
			}
		}
		for i := range s.Containers {
			if !yield(place{"containers", i}, &s.Containers[i]) {
				return
			}
		}
		for i := range s.EphemeralContainers {
			if !yield(place{"ephemeralContainers", i}, (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// forLinux checks that a pod for Linux asks for nothing that only Windows has.
//
//upstream:pkg/apis/core/validation.validateLinux
func forLinux(spec check.Field, s *corev1.PodSpec) {
	const message = "windows options cannot be set for a linux pod"
	check.Forbid(spec.Child("securityContext").Child("windowsOptions"),
		s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil, message)
	for at, c := range each(s) {
		check.Forbid(at.in(spec).Child("securityContext").Child("windowsOptions"),
			c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, message)
	}
}

// forWindows checks that a pod for Windows asks for nothing that only Linux has.
//
//upstream:pkg/apis/core/validation.validateWindows
func forWindows(spec check.Field, s *corev1.PodSpec) {
	const message = "cannot be set for a windows pod"
	check.Forbid(spec.Child("hostUsers"), s.HostUsers != nil, message)
	check.Forbid(spec.Child("hostPID"), s.HostPID, message)
	check.Forbid(spec.Child("hostIPC"), s.HostIPC, message)
	check.Forbid(spec.Child("shareProcessNamespace"), s.ShareProcessNamespace != nil, message)
	if c, at := s.SecurityContext, spec.Child("securityContext"); c != nil {
		check.Forbid(at.Child("appArmorProfile"), c.AppArmorProfile != nil, message)
		check.Forbid(at.Child("seLinuxOptions"), c.SELinuxOptions != nil, message)
		check.Forbid(at.Child("seccompProfile"), c.SeccompProfile != nil, message)
		check.Forbid(at.Child("fsGroup"), c.FSGroup != nil, message)
		check.Forbid(at.Child("fsGroupChangePolicy"), c.FSGroupChangePolicy != nil, message)
		check.Forbid(at.Child("sysctls"), len(c.Sysctls) > 0, message)
		check.Forbid(at.Child("runAsUser"), c.RunAsUser != nil, message)
		check.Forbid(at.Child("runAsGroup"), c.RunAsGroup != nil, message)
		check.Forbid(at.Child("supplementalGroups"), c.SupplementalGroups != nil, message)
		check.Forbid(at.Child("supplementalGroupsPolicy"), c.SupplementalGroupsPolicy != nil, message)
		check.Forbid(at.Child("seLinuxChangePolicy"), c.SELinuxChangePolicy != nil, message)
	}
	for place, container := range each(s) {
		c, at := container.SecurityContext, place.in(spec).Child("securityContext")
		if c == nil {
			continue
		}
		check.Forbid(at.Child("appArmorProfile"), c.AppArmorProfile != nil, message)
		check.Forbid(at.Child("seLinuxOptions"), c.SELinuxOptions != nil, message)
		check.Forbid(at.Child("seccompProfile"), c.SeccompProfile != nil, message)
		check.Forbid(at.Child("capabilities"), c.Capabilities != nil, message)
		check.Forbid(at.Child("readOnlyRootFilesystem"), c.ReadOnlyRootFilesystem != nil, message)
		check.Forbid(at.Child("privileged"), c.Privileged != nil, message)
		check.Forbid(at.Child("allowPrivilegeEscalation"), c.AllowPrivilegeEscalation != nil, message)
		check.Forbid(at.Child("procMount"), c.ProcMount != nil, message)
		check.Forbid(at.Child("runAsUser"), c.RunAsUser != nil, message)
		check.Forbid(at.Child("runAsGroup"), c.RunAsGroup != nil, message)
	}
}
