package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
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
func windowsOptions(o *corev1.WindowsSecurityContextOptions, fldPath *fieldrules.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	at := fldPath.Child("windowsOptions")
	var errs field.ErrorList
	if name := o.GMSACredentialSpecName; name != nil {
		errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Subdomain(*name), name, &at, "gmsaCredentialSpecName")...)
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		switch {
		case *spec == "":
			errs = append(errs, field.Invalid(at.ChildField("gmsaCredentialSpec"), spec, "gmsaCredentialSpec cannot be an empty string"))
		case len(*spec) > maxCredentialSpec:
			errs = append(errs, field.Invalid(at.ChildField("gmsaCredentialSpec"), spec,
				fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec>>10)))
		}
	}
	if name := o.RunAsUserName; name != nil {
		for _, m := range windowsUser(*name) {
			errs = append(errs, field.Invalid(at.ChildField("runAsUserName"), name, m))
		}
	}
	return errs
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
func hostProcess(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	pod := (*bool)(nil)
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		pod = s.SecurityContext.WindowsOptions.HostProcess
	}
	var errs field.ErrorList
	all, host := 0, 0
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		all++
		own := pod
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil && c.SecurityContext.WindowsOptions.HostProcess != nil {
			own = c.SecurityContext.WindowsOptions.HostProcess
		}
		if pod != nil && *pod != *own {
			errs = append(errs, field.Invalid(at.Field().Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod)))
		}
		if own != nil && *own {
			host++
		}
	})
	if host == 0 {
		return errs
	}
	if host != all {
		errs = append(errs, field.Invalid(fldPath.Field(), "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !s.HostNetwork {
		errs = append(errs, field.Invalid(fldPath.ChildField("hostNetwork"), false,
			"hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

// each calls yield with all containers of a pod.
func each(s *corev1.PodSpec, fldPath *fieldrules.Path, yield func(c *corev1.Container, at *fieldrules.Path)) {
	list := fldPath.Child("initContainers")
	for i := range s.InitContainers {
		at := list.Index(i)
		yield(&s.InitContainers[i], &at)
	}
	list = fldPath.Child("containers")
	for i := range s.Containers {
		at := list.Index(i)
		yield(&s.Containers[i], &at)
	}
	list = fldPath.Child("ephemeralContainers")
	for i := range s.EphemeralContainers {
		at := list.Index(i)
		yield((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon), &at)
	}
}

// forLinux checks that a pod for Linux asks for nothing that only Windows has.
//
//upstream:pkg/apis/core/validation.validateLinux
func forLinux(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	const message = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if c := s.SecurityContext; c != nil && c.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(fldPath.ChildField("securityContext").Child("windowsOptions"), message))
	}
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(at.ChildField("securityContext").Child("windowsOptions"), message))
		}
	})
	return errs
}

// forWindows checks that a pod for Windows asks for nothing that only Linux has.
//
//upstream:pkg/apis/core/validation.validateWindows
func forWindows(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(set bool, path *fieldrules.Path, name string) {
		if set {
			errs = append(errs, field.Forbidden(path.ChildField(name), "cannot be set for a windows pod"))
		}
	}
	forbid(s.HostUsers != nil, fldPath, "hostUsers")
	forbid(s.HostPID, fldPath, "hostPID")
	forbid(s.HostIPC, fldPath, "hostIPC")
	forbid(s.ShareProcessNamespace != nil, fldPath, "shareProcessNamespace")
	if c := s.SecurityContext; c != nil {
		at := fldPath.Child("securityContext")
		forbid(c.AppArmorProfile != nil, &at, "appArmorProfile")
		forbid(c.SELinuxOptions != nil, &at, "seLinuxOptions")
		forbid(c.SeccompProfile != nil, &at, "seccompProfile")
		forbid(c.FSGroup != nil, &at, "fsGroup")
		forbid(c.FSGroupChangePolicy != nil, &at, "fsGroupChangePolicy")
		forbid(len(c.Sysctls) > 0, &at, "sysctls")
		forbid(c.RunAsUser != nil, &at, "runAsUser")
		forbid(c.RunAsGroup != nil, &at, "runAsGroup")
		forbid(c.SupplementalGroups != nil, &at, "supplementalGroups")
		forbid(c.SupplementalGroupsPolicy != nil, &at, "supplementalGroupsPolicy")
		forbid(c.SELinuxChangePolicy != nil, &at, "seLinuxChangePolicy")
	}
	each(s, fldPath, func(container *corev1.Container, at *fieldrules.Path) {
		c := container.SecurityContext
		if c == nil {
			return
		}
		context := at.Child("securityContext")
		forbid(c.AppArmorProfile != nil, &context, "appArmorProfile")
		forbid(c.SELinuxOptions != nil, &context, "seLinuxOptions")
		forbid(c.SeccompProfile != nil, &context, "seccompProfile")
		forbid(c.Capabilities != nil, &context, "capabilities")
		forbid(c.ReadOnlyRootFilesystem != nil, &context, "readOnlyRootFilesystem")
		forbid(c.Privileged != nil, &context, "privileged")
		forbid(c.AllowPrivilegeEscalation != nil, &context, "allowPrivilegeEscalation")
		forbid(c.ProcMount != nil, &context, "procMount")
		forbid(c.RunAsUser != nil, &context, "runAsUser")
		forbid(c.RunAsGroup != nil, &context, "runAsGroup")
	})
	return errs
}
