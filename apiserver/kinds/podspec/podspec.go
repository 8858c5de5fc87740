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

// ValidateTemplate checks the pod template of a controller. The old template is nil on create.
//
//upstream:pkg/apis/core/validation.ValidatePodTemplateSpec
//upstream:pkg/apis/core/v1.Validate_PodTemplateSpec
//upstream:pkg/api/pod.GetValidationOptionsFromPodTemplate
func ValidateTemplate(t, old *corev1.PodTemplateSpec, fldPath *fieldrules.Path) field.ErrorList {
	r := &rules{}
	if old != nil {
		r = rulesFor(nil, &old.Spec, old.Annotations)
	}
	errs := r.templateMeta(t, fldPath)
	at := fldPath.Child("spec")
	if len(t.Annotations) > 0 {
		errs = append(errs, sameProfiles(t.Annotations, &t.Spec, &at)...)
	}
	errs = append(errs, r.spec(&t.Spec, &at)...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.ChildField("ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateTemplateMeta checks the labels and the annotations of a pod template.
func ValidateTemplateMeta(t, old *corev1.PodTemplateSpec, fldPath *fieldrules.Path) field.ErrorList {
	return rulesFor(nil, &old.Spec, old.Annotations).templateMeta(t, fldPath)
}

func (r *rules) templateMeta(t *corev1.PodTemplateSpec, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.LabelMap(t.Labels, fldPath, "labels")
	errs = append(errs, fieldrules.Annotations(t.Annotations, fldPath)...)
	if len(t.Annotations) > 0 {
		at := fldPath.Child("annotations")
		errs = append(errs, r.annotations(t.Annotations, &t.Spec, &at)...)
	}
	return errs
}

// Validate checks the spec and the annotations of a pod. The old pod is nil on create.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
func Validate(p, old *corev1.Pod) field.ErrorList {
	r := &rules{pod: &p.ObjectMeta}
	if old != nil {
		r = rulesFor(&p.ObjectMeta, &old.Spec, old.Annotations)
	}
	errs := r.spec(&p.Spec, &fieldrules.Spec)
	if len(p.Annotations) > 0 {
		at := fieldrules.Metadata.Child("annotations")
		errs = append(errs, r.annotations(p.Annotations, &p.Spec, &at)...)
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		errs = append(errs, fieldrules.NonNegative(*g, &fieldrules.Spec, "terminationGracePeriodSeconds")...)
	}
	if p.Spec.ServiceAccountName == "" {
		errs = append(errs, noTokens(&p.Spec)...)
	}
	return errs
}

// noTokens checks that a pod without a service account projects no token.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
func noTokens(s *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Volumes {
		if s.Volumes[i].Projected == nil {
			continue
		}
		for j, source := range s.Volumes[i].Projected.Sources {
			if source.ServiceAccountToken != nil {
				at := fieldrules.Spec.ChildField("volumes").Index(i).Child("projected", "sources").Index(j)
				errs = append(errs, field.Forbidden(at.Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return errs
}

// spec checks the spec of a pod or of a template.
//
//upstream:pkg/apis/core/validation.ValidatePodSpec
//upstream:pkg/apis/core/v1.Validate_PodSpec
func (r *rules) spec(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	valid, errs := r.volumes(s, fldPath)
	if len(valid) < len(s.Volumes) {
		with := *s
		with.Volumes = valid
		errs = append(errs, r.containers(&with, fldPath)...)
	} else {
		errs = append(errs, r.containers(s, fldPath)...)
	}
	errs = append(errs, fileKeyVolumes(s, fldPath)...)
	errs = append(errs, oneOfInOrder(s.RestartPolicy, fldPath, "restartPolicy",
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, oneOfInOrder(s.DNSPolicy, fldPath, "dnsPolicy",
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, fieldrules.LabelMap(s.NodeSelector, fldPath, "nodeSelector")...)
	errs = append(errs, podNames(s, fldPath)...)
	errs = append(errs, r.podSecurity(s, fldPath)...)
	errs = append(errs, podNetwork(s, fldPath)...)
	errs = append(errs, r.scheduling(s, fldPath)...)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(fldPath.ChildField("activeDeadlineSeconds"), *d,
			validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if len(s.Overhead) > 0 {
		at := fldPath.Child("overhead")
		limits := &corev1.ResourceRequirements{Limits: s.Overhead} // the path in the errors says so
		errs = append(errs, fieldrules.ResourceRequirements(limits, &at, fieldrules.ContainerResource, r.anyPages)...)
	}
	errs = append(errs, operatingSystem(s, fldPath)...)
	errs = append(errs, r.resourceClaims(s.ResourceClaims, fldPath)...)
	errs = append(errs, claimNames(s, fldPath)...)
	errs = append(errs, hostProcess(s, fldPath)...)
	if s.HostUsers != nil && !*s.HostUsers {
		errs = append(errs, r.privateUsers(s, fldPath)...)
	}
	if s.Resources != nil {
		errs = append(errs, r.podResources(s, fldPath)...)
	}
	return errs
}

// privateUsers checks a spec with users that are not the users of the host.
//
//upstream:pkg/apis/core/validation.validateHostUsers
func (r *rules) privateUsers(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	const message = "when `hostUsers` is false"
	var errs field.ErrorList
	for _, host := range [...]struct {
		name string // as in kube-apiserver's errors
		set  bool
	}{{"hostNetwork", s.HostNetwork}, {"HostPID", s.HostPID}, {"HostIPC", s.HostIPC}} {
		if host.set {
			errs = append(errs, field.Forbidden(fldPath.ChildField(host.name), message))
		}
	}
	if r.privateDevices {
		return errs
	}
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		if len(c.VolumeDevices) > 0 {
			errs = append(errs, field.Forbidden(at.ChildField("volumeDevices"), message))
		}
	})
	return errs
}

// oneOfInOrder is [fieldrules.OneOf] for values that Kubernetes lists in an order of their own, where it does not sort them.
func oneOfInOrder[S ~string](value S, fldPath *fieldrules.Path, name string, allowed ...S) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return fieldrules.OneOf(value, fldPath, name, allowed...)
	}
	return field.ErrorList{field.NotSupported(fldPath.ChildField(name), value, allowed)}
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
		return forLinux(s, fldPath)
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
	if s.HostnameOverride != nil {
		errs = append(errs, hostnameOverride(s, fldPath)...)
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

// maxHostname is the length of the longest host name of Linux.
const maxHostname = 64

// hostnameOverride checks a name that replaces the host name of a pod.
//
//upstream:pkg/apis/core/validation.validatePodHostName
func hostnameOverride(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	at := fldPath.Child("hostnameOverride")
	var errs field.ErrorList
	if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at.Field(), "may not be specified when setHostnameAsFQDN is true"))
	}
	if s.HostNetwork {
		errs = append(errs, field.Forbidden(at.Field(), "may not be specified when hostNetwork is true"))
	}
	if len(*s.HostnameOverride) > maxHostname {
		errs = append(errs, field.TooLong(at.Field(), "", maxHostname))
	}
	return append(errs, fieldrules.DNSName(*s.HostnameOverride, &at, "")...)
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
		return field.ErrorList{field.Required(at.ChildField("nameservers"),
			"must provide at least one DNS nameserver when `dnsPolicy` is None")}
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
func (r *rules) podSecurity(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
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
	return append(errs, r.sysctls(s, &at)...)
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
		errs = append(errs, fieldrules.OneOf(p.Type, &at, "type", corev1.SeccompProfileTypeLocalhost,
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
