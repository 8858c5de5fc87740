package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// maxSysctl is the length of the longest name of a sysctl.
const maxSysctl = 253

// sysctlName matches names of sysctls, whose segments are separated by dots or slashes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// maxLocalProfile is the length of the longest path of an AppArmor profile of a node.
const maxLocalProfile = 4095

// appArmor checks an AppArmor profile.
//
//upstream:pkg/apis/core/validation.ValidateAppArmorProfileField
func appArmor(p *corev1.AppArmorProfile, fldPath *fieldrules.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	at := fldPath.Child("appArmorProfile")
	local := at.ChildField("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		var errs field.ErrorList
		switch name := p.LocalhostProfile; {
		case name == nil || *name == "":
			return field.ErrorList{field.Required(local, "must be set when AppArmor type is Localhost")}
		case strings.TrimSpace(*name) != *name:
			errs = append(errs, field.Invalid(local, *name, "must not be padded with whitespace"))
		}
		if len(*p.LocalhostProfile) > maxLocalProfile {
			errs = append(errs, field.TooLong(local, "", maxLocalProfile))
		}
		return errs
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(local, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost")}
		}
		return nil
	case "":
		return field.ErrorList{field.Required(at.ChildField("type"), "type is required when appArmorProfile is set")}
	}
	return oneOf(p.Type, &at, "type", corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault,
		corev1.AppArmorProfileTypeUnconfined)
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
	if len(appArmor(p, &fieldrules.Root)) > 0 {
		return nil
	}
	return p
}

// DeprecatedAppArmor is the warning about the annotation.
const DeprecatedAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`
