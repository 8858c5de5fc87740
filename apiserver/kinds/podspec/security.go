package podspec

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// maxSysctl is the length of the longest name of a sysctl.
const maxSysctl = 253

// sysctlName matches names of sysctls. Dots or slashes separate the segments of a name.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// sysctls checks the sysctls of a pod.
//
//upstream:pkg/apis/core/validation.validateSysctls
func (r *rules) sysctls(list check.Field, s *corev1.PodSpec) {
	var names fieldrules.Seen[string]
	for i, sysctl := range s.SecurityContext.Sysctls {
		at := list.Index(i).Child("name")
		switch name := sysctl.Name; {
		case name == "":
			at.Required("")
		case len(name) > maxSysctl || !sysctlName.MatchString(name):
			at.Invalidf(name, "must have at most %d characters and match regex %s", maxSysctl, sysctlName)
		case names.Has(name):
			at.Duplicate(name)
		}
		if host := hostSysctl(sysctl.Name, s); host != "" && !r.anySysctl {
			at.Invalidf(sysctl.Name, "may not be specified when '%s' is true", host)
		}
		names.Add(sysctl.Name)
	}
}

// ipcSysctls are the sysctls of the IPC namespace, besides fs.mqueue.
var ipcSysctls = []string{"kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced",
	"kernel.shm", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg"}

// hostSysctl returns the field of a spec that makes a sysctl one of the host, or "".
//
//upstream:pkg/apis/core/validation.ValidateHostSysctl
//upstream:k8s.io/component-helpers/node/util/sysctl.GetNamespace
func hostSysctl(name string, s *corev1.PodSpec) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	name, _, _ = strings.Cut(name, "*")
	switch {
	case s.HostNetwork && strings.HasPrefix(name, "net."):
		return "hostNetwork"
	case s.HostIPC && (slices.Contains(ipcSysctls, name) || strings.HasPrefix(name, "fs.mqueue.")):
		return "hostIPC"
	}
	return ""
}

// maxLocalProfile is the length of the longest path of an AppArmor profile of a node.
const maxLocalProfile = 4095

// appArmor checks an AppArmor profile.
//
//upstream:pkg/apis/core/validation.ValidateAppArmorProfileField
func appArmor(at check.Field, p *corev1.AppArmorProfile) {
	if p == nil {
		return
	}
	switch local := at.Child("localhostProfile"); p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil {
			local.Required("must be set when AppArmor type is Localhost")
			return
		}
		switch name := *p.LocalhostProfile; {
		case strings.TrimSpace(name) != name:
			local.Invalid(name, "must not be padded with whitespace")
		case name == "":
			local.Required("must be set when AppArmor type is Localhost")
		}
		if len(*p.LocalhostProfile) > maxLocalProfile {
			local.TooLong(maxLocalProfile)
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			local.Invalid(p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		at.Child("type").Required("type is required when appArmorProfile is set")
	default:
		check.OneOf(at.Child("type"), p.Type, corev1.AppArmorProfileTypeLocalhost,
			corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}

// AppArmorOf returns the profile that the deprecated annotation of a container names, or nil if it
// names none.
func AppArmorOf(annotation string) *corev1.AppArmorProfile {
	p := &corev1.AppArmorProfile{}
	switch name, local := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		p.Type = corev1.AppArmorProfileTypeRuntimeDefault
	case annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		p.Type = corev1.AppArmorProfileTypeUnconfined
	case local:
		p.Type, p.LocalhostProfile = corev1.AppArmorProfileTypeLocalhost, &name
	}
	if check.Fails(func(at check.Field) { appArmor(at, p) }) {
		return nil
	}
	return p
}

// DeprecatedAppArmor is the warning about the annotation.
const DeprecatedAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`
