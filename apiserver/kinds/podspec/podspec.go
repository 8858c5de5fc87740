// Package podspec validates pod specs and pod templates, and sets their defaults.
package podspec

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// template checks the pod template of a controller.
//
//upstream:pkg/apis/core/validation.ValidatePodTemplateSpec
func ValidateTemplate(t *corev1.PodTemplateSpec, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.LabelMap(t.Labels, fldPath, "labels")
	errs = append(errs, fieldrules.Annotations(t.Annotations, fldPath)...)
	at := fldPath.Child("spec")
	errs = append(errs, Validate(&t.Spec, &at)...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.ChildField("ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

// Validate checks a spec of a pod or a pod template.
//
//upstream:pkg/apis/core/validation.ValidatePodSpec
func Validate(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	valid, errs := volumes(s, fldPath)
	if len(valid) < len(s.Volumes) {
		with := *s
		with.Volumes = valid
		errs = append(errs, containers(&with, fldPath)...)
	} else {
		errs = append(errs, containers(s, fldPath)...)
	}
	errs = append(errs, fileKeyVolumes(s, fldPath)...)
	errs = append(errs, oneOf(s.RestartPolicy, fldPath, "restartPolicy",
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, oneOf(s.DNSPolicy, fldPath, "dnsPolicy",
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, fieldrules.LabelMap(s.NodeSelector, fldPath, "nodeSelector")...)
	errs = append(errs, podNames(s, fldPath)...)
	errs = append(errs, podSecurity(s, fldPath)...)
	errs = append(errs, podNetwork(s, fldPath)...)
	errs = append(errs, scheduling(s, fldPath)...)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(fldPath.ChildField("activeDeadlineSeconds"), *d,
			validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if len(s.Overhead) > 0 {
		overhead := fldPath.Child("overhead")
		at := overhead.Child("limits") // the path that kube-apiserver reports
		errs = append(errs, fieldrules.ResourceList(s.Overhead, &at)...)
	}
	errs = append(errs, operatingSystem(s, fldPath)...)
	errs = append(errs, resourceClaims(s.ResourceClaims, fldPath)...)
	errs = append(errs, claimNames(s, fldPath)...)
	errs = append(errs, hostProcess(s, fldPath)...)
	if s.HostUsers != nil && !*s.HostUsers {
		for _, host := range [...]struct {
			name string
			set  bool
		}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
			if host.set {
				errs = append(errs, field.Forbidden(fldPath.ChildField(host.name), "when `hostUsers` is false"))
			}
		}
	}
	switch at := fldPath.Child("resources"); {
	case s.Resources == nil:
	case s.OS != nil && s.OS.Name == corev1.Windows:
		errs = append(errs, field.Forbidden(at.Field(), "may not be set for a windows pod"))
	default:
		errs = append(errs, fieldrules.ResourceRequirements(s.Resources, &at)...)
		errs = append(errs, podLevelResources(s.Resources, &at)...)
	}
	return errs
}

// oneOf checks that a value is set, to one of those allowed. The error lists these in the given
// order.
func oneOf[S ~string](value S, fldPath *fieldrules.Path, name string, allowed ...S) field.ErrorList {
	switch {
	case slices.Contains(allowed, value):
		return nil
	case value == "":
		return field.ErrorList{field.Required(fldPath.ChildField(name), "")}
	}
	return field.ErrorList{field.NotSupported(fldPath.ChildField(name), value, allowed)}
}

// podResource reports whether a pod as a whole can have a resource.
func podResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// podLevelResources checks that resources are of those that a pod can have as a whole.
//
//upstream:pkg/apis/core/validation.validatePodResources
func podLevelResources(r *corev1.ResourceRequirements, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(fldPath.ChildField("claims"), "claims may not be set for Resources at pod-level"))
	}
	for _, list := range [...]struct {
		name      string
		resources corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range fieldrules.SortedKeys(list.resources) {
			if podResource(name) || !strings.Contains(string(name), "/") && name != corev1.ResourceEphemeralStorage {
				continue
			}
			errs = append(errs, field.NotSupported(fldPath.ChildField(list.name).Key(string(name)), name,
				[]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory}))
		}
	}
	return errs
}

// operatingSystem checks the operating system, and that a pod for Windows asks for nothing that only
// Linux has.
//
//upstream:pkg/apis/core/validation.validateOS
func operatingSystem(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	if s.OS == nil {
		return nil
	}
	switch s.OS.Name {
	case corev1.Linux:
		return nil
	case corev1.Windows:
		return forWindows(s, fldPath)
	case "":
		return field.ErrorList{field.Required(fldPath.ChildField("os").Child("name"), "")}
	default:
		return field.ErrorList{field.NotSupported(fldPath.ChildField("os"), s.OS.Name,
			[]corev1.OSName{corev1.Linux, corev1.Windows})}
	}
}

// podNames checks the names of other objects in a pod's spec.
func podNames(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range [...]struct{ field, value string }{
		{"serviceAccountName", s.ServiceAccountName}, {"nodeName", s.NodeName}, {"priorityClassName", s.PriorityClassName},
	} {
		if n.value != "" {
			errs = append(errs, fieldrules.DNSName(n.value, fldPath, n.field)...)
		}
	}
	if s.RuntimeClassName != nil {
		errs = append(errs, fieldrules.DNSName(*s.RuntimeClassName, fldPath, "runtimeClassName")...)
	}
	if s.SchedulerName != "" {
		errs = append(errs, fieldrules.QualifiedName(s.SchedulerName, fldPath, "schedulerName")...)
	}
	for i, g := range s.ReadinessGates {
		list := fldPath.Child("readinessGates")
		at := list.Index(i)
		errs = append(errs, fieldrules.QualifiedName(string(g.ConditionType), &at, "conditionType")...)
	}
	var gates fieldrules.Seen[string]
	for i, g := range s.SchedulingGates {
		list := fldPath.Child("schedulingGates")
		at := list.Index(i)
		errs = append(errs, fieldrules.QualifiedName(g.Name, &at, "")...)
		if i == 0 && s.NodeName != "" {
			errs = append(errs, field.Forbidden(fldPath.ChildField("nodeName"),
				"cannot be set until all schedulingGates have been cleared"))
		}
		if !gates.Add(g.Name) {
			errs = append(errs, field.Duplicate(at.Field(), g.Name))
		}
	}
	return errs
}

func podNetwork(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Hostname != "" {
		errs = append(errs, fieldrules.DNSLabel(s.Hostname, fldPath, "hostname")...)
	}
	if s.HostnameOverride != nil && *s.HostnameOverride != "" {
		errs = append(errs, fieldrules.DNSName(*s.HostnameOverride, fldPath, "hostnameOverride")...)
	}
	if s.Subdomain != "" {
		errs = append(errs, fieldrules.DNSLabel(s.Subdomain, fldPath, "subdomain")...)
	}
	for i, a := range s.HostAliases {
		list := fldPath.Child("hostAliases")
		at := list.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.ChildField("ip"), a.IP, true, nil)...)
		names := at.Child("hostnames")
		for j, h := range a.Hostnames {
			name := names.Index(j)
			errs = append(errs, fieldrules.DNSName(h, &name, "")...)
		}
	}
	if s.DNSConfig != nil || s.DNSPolicy == corev1.DNSNone {
		errs = append(errs, dnsConfig(s, fldPath)...)
	}
	return errs
}

const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
)

// dnsConfig checks the DNS policy and configuration of a pod.
//
//upstream:pkg/apis/core/validation.validatePodDNSConfig
func dnsConfig(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	at := fldPath.Child("dnsConfig")
	c := s.DNSConfig
	if c == nil {
		return field.ErrorList{field.Required(at.Field(), "must provide `dnsConfig` when `dnsPolicy` is None")}
	}
	var errs field.ErrorList
	if s.DNSPolicy == corev1.DNSNone && len(c.Nameservers) == 0 {
		errs = append(errs, field.Required(at.ChildField("nameservers"),
			"must provide at least one DNS nameserver when `dnsPolicy` is None"))
	}
	if len(c.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(at.ChildField("nameservers"), c.Nameservers,
			"must not have more than "+strconv.Itoa(maxNameservers)+" nameservers"))
	}
	for i, n := range c.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(at.ChildField("nameservers").Index(i), n, true, nil)...)
	}
	if len(c.Searches) > maxSearches {
		errs = append(errs, field.Invalid(at.ChildField("searches"), c.Searches,
			"must not have more than "+strconv.Itoa(maxSearches)+" search paths"))
	}
	length := 0
	for _, search := range c.Searches {
		length += len(search) + 1
	}
	if length-1 > maxSearchLength {
		errs = append(errs, field.Invalid(at.ChildField("searches"), c.Searches,
			"must not have more than "+strconv.Itoa(maxSearchLength)+" characters (including spaces) in the search list"))
	}
	searches := at.Child("searches")
	for i, search := range c.Searches {
		if search == "." {
			continue
		}
		item := searches.Index(i)
		search = strings.TrimSuffix(search, ".")
		errs = append(errs, fieldrules.Invalid(validation.IsDNS1123SubdomainWithUnderscore(search), search, &item, "")...)
	}
	for i, o := range c.Options {
		if o.Name == "" {
			errs = append(errs, field.Required(at.ChildField("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

// podSecurity checks the security context of a pod.
//
//upstream:pkg/apis/core/validation.validatePodSpecSecurityContext
//upstream:pkg/apis/core/validation.validateShareProcessNamespace
func podSecurity(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && s.HostPID {
		errs = append(errs, field.Invalid(fldPath.ChildField("shareProcessNamespace"), true,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	c := s.SecurityContext
	if c == nil {
		return errs
	}
	at := fldPath.Child("securityContext")
	errs = append(errs, userAndGroup(c.RunAsUser, c.RunAsGroup, &at)...)
	if c.FSGroup != nil {
		errs = append(errs, fieldrules.Invalid(validation.IsValidGroupID(*c.FSGroup), *c.FSGroup, &at, "fsGroup")...)
	}
	for i, g := range c.SupplementalGroups {
		for _, m := range validation.IsValidGroupID(g) {
			errs = append(errs, field.Invalid(at.ChildField("supplementalGroups").Index(i), g, m))
		}
	}
	errs = append(errs, fieldrules.OptionalOneOf(c.FSGroupChangePolicy, &at, "fsGroupChangePolicy",
		corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	errs = append(errs, seccomp(c.SeccompProfile, &at)...)
	errs = append(errs, appArmor(c.AppArmorProfile, &at)...)
	errs = append(errs, windowsOptions(c.WindowsOptions, &at)...)
	errs = append(errs, fieldrules.OptionalOneOf(c.SupplementalGroupsPolicy, &at, "supplementalGroupsPolicy",
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	errs = append(errs, fieldrules.OptionalOneOf(c.SELinuxChangePolicy, &at, "seLinuxChangePolicy",
		corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	var sysctls fieldrules.Seen[string]
	for i, sysctl := range c.Sysctls {
		list := at.Child("sysctls")
		item := list.Index(i)
		errs = append(errs, fieldrules.Required(sysctl.Name, &item, "name")...)
		if sysctl.Name != "" && (len(sysctl.Name) > maxSysctl || !sysctlName.MatchString(sysctl.Name)) {
			errs = append(errs, field.Invalid(item.ChildField("name"), sysctl.Name,
				"must have at most "+strconv.Itoa(maxSysctl)+" characters and match regex "+sysctlName.String()))
		}
		if !sysctls.Add(sysctl.Name) {
			errs = append(errs, field.Duplicate(item.ChildField("name"), sysctl.Name))
		}
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateSeccompProfileField
func seccomp(p *corev1.SeccompProfile, fldPath *fieldrules.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	at := fldPath.Child("seccompProfile")
	var errs field.ErrorList
	if p.Type == "" {
		errs = append(errs, field.Required(at.ChildField("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, oneOf(p.Type, &at, "type", corev1.SeccompProfileTypeLocalhost,
			corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
	}
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(at.ChildField("localhostProfile"), "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, localPath(*p.LocalhostProfile, &at, "localhostProfile")...)
	case !local && p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(at.ChildField("localhostProfile"), fieldrules.Internal(*p),
			"can only be set when seccomp type is Localhost"))
	}
	return errs
}

func userAndGroup(user, group *int64, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if user != nil {
		errs = append(errs, fieldrules.Invalid(validation.IsValidUserID(*user), *user, fldPath, "runAsUser")...)
	}
	if group != nil {
		errs = append(errs, fieldrules.Invalid(validation.IsValidGroupID(*group), *group, fldPath, "runAsGroup")...)
	}
	return errs
}

// VisitContainers calls visit with the name and the security context of each container: those that
// initialize, the others, and the ephemeral ones.
func VisitContainers(s *corev1.PodSpec, visit func(name string, context **corev1.SecurityContext)) {
	for _, list := range [...][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			visit(list[i].Name, &list[i].SecurityContext)
		}
	}
	for i := range s.EphemeralContainers {
		visit(s.EphemeralContainers[i].Name, &s.EphemeralContainers[i].SecurityContext)
	}
}
