// Package podspec validates pod specs and pod templates, and sets their defaults.
package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ValidateTemplate checks the pod template of a controller. The old template is nil on create.
//
//upstream:pkg/apis/core/validation.ValidatePodTemplateSpec
//upstream:pkg/apis/core/v1.Validate_PodTemplateSpec
//upstream:pkg/api/pod.GetValidationOptionsFromPodTemplate
func ValidateTemplate(template check.Field, t, old *corev1.PodTemplateSpec) {
	r := &rules{}
	if old != nil {
		r = rulesFor(nil, &old.Spec, old.Annotations)
	}
	r.templateMeta(template, t)
	spec := template.Child("spec")
	sameProfiles(spec, t.Annotations, &t.Spec)
	r.spec(spec, &t.Spec)
	check.Forbid(spec.Child("ephemeralContainers"), len(t.Spec.EphemeralContainers) > 0,
		"ephemeral containers not allowed in pod template")
}

// ValidateTemplateMeta checks the labels and the annotations of a pod template.
func ValidateTemplateMeta(template check.Field, t, old *corev1.PodTemplateSpec) {
	rulesFor(nil, &old.Spec, old.Annotations).templateMeta(template, t)
}

func (r *rules) templateMeta(template check.Field, t *corev1.PodTemplateSpec) {
	check.Labels(template.Child("labels"), t.Labels)
	check.Annotations(template.Child("annotations"), t.Annotations)
	r.annotations(template.Child("annotations"), t.Annotations, &t.Spec)
}

// Validate checks the spec and the annotations of a pod. The old pod is nil on create.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
func Validate(object check.Field, p, old *corev1.Pod) {
	r := &rules{pod: &p.ObjectMeta}
	if old != nil {
		r = rulesFor(&p.ObjectMeta, &old.Spec, old.Annotations)
	}
	spec := object.Child("spec")
	r.spec(spec, &p.Spec)
	r.annotations(object.Child("metadata").Child("annotations"), p.Annotations, &p.Spec)
	check.NonNegative(spec.Child("terminationGracePeriodSeconds"), p.Spec.TerminationGracePeriodSeconds)
	if p.Spec.ServiceAccountName == "" {
		noTokens(spec.Child("volumes"), p.Spec.Volumes)
	}
}

// noTokens checks that a pod without a service account projects no token.
//
//upstream:pkg/apis/core/validation.validatePodMetadataAndSpec
func noTokens(at check.Field, volumes []corev1.Volume) {
	for i := range volumes {
		if volumes[i].Projected == nil {
			continue
		}
		for j, source := range volumes[i].Projected.Sources {
			check.Forbid(at.Index(i).Child("projected").Child("sources").Index(j).Child("serviceAccountToken"),
				source.ServiceAccountToken != nil, "must not be specified when serviceAccountName is not set")
		}
	}
}

// spec checks the spec of a pod or of a template.
//
//upstream:pkg/apis/core/validation.ValidatePodSpec
//upstream:pkg/apis/core/v1.Validate_PodSpec
func (r *rules) spec(at check.Field, s *corev1.PodSpec) {
	if valid := r.volumes(at.Child("volumes"), s.Volumes); len(valid) < len(s.Volumes) {
		with := *s
		with.Volumes = valid
		r.containers(at, &with)
	} else {
		r.containers(at, s)
	}
	fileKeyVolumes(at, s)
	check.OneOf(at.Child("restartPolicy"), s.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	check.OneOf(at.Child("dnsPolicy"), s.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	check.Labels(at.Child("nodeSelector"), s.NodeSelector)
	podNames(at, s)
	r.podSecurity(at, s)
	podNetwork(at, s)
	r.scheduling(at, s)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		at.Child("activeDeadlineSeconds").Invalid(*d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if len(s.Overhead) > 0 { // kube-apiserver checks it as limits, and the paths in its errors say so
		check.Resources(at.Child("overhead"), &corev1.ResourceRequirements{Limits: s.Overhead}, false, r.anyPages)
	}
	operatingSystem(at, s)
	r.resourceClaims(at.Child("resourceClaims"), s.ResourceClaims)
	claimNames(at, s)
	hostProcess(at, s)
	if s.HostUsers != nil && !*s.HostUsers {
		r.privateUsers(at, s)
	}
	if s.Resources != nil {
		r.podResources(at.Child("resources"), s)
	}
}

// privateUsers checks a spec with users that are not the users of the host.
//
//upstream:pkg/apis/core/validation.validateHostUsers
func (r *rules) privateUsers(spec check.Field, s *corev1.PodSpec) {
	const message = "when `hostUsers` is false"
	check.Forbid(spec.Child("hostNetwork"), s.HostNetwork, message)
	check.Forbid(spec.Child("HostPID"), s.HostPID, message) // the names are as in kube-apiserver's errors
	check.Forbid(spec.Child("HostIPC"), s.HostIPC, message)
	if r.privateDevices {
		return
	}
	for at, c := range each(s) {
		check.Forbid(at.in(spec).Child("volumeDevices"), len(c.VolumeDevices) > 0, message)
	}
}

// operatingSystem checks the operating system, and that a pod for Windows asks for nothing that only
// Linux has.
//
//upstream:pkg/apis/core/validation.validateOS
func operatingSystem(spec check.Field, s *corev1.PodSpec) {
	if s.OS == nil {
		return
	}
	switch s.OS.Name {
	case corev1.Linux:
		forLinux(spec, s)
	case corev1.Windows:
		forWindows(spec, s)
	case "":
		spec.Child("os").Child("name").Required("")
	default:
		spec.Child("os").NotSupported(s.OS.Name, string(corev1.Linux), string(corev1.Windows))
	}
}

// podNames checks the names of other objects in a pod's spec, and the gates.
func podNames(spec check.Field, s *corev1.PodSpec) {
	check.IfSet(spec.Child("serviceAccountName"), s.ServiceAccountName, check.DNSName)
	check.IfSet(spec.Child("nodeName"), s.NodeName, check.DNSName)
	check.IfSet(spec.Child("priorityClassName"), s.PriorityClassName, check.DNSName)
	check.Optional(spec.Child("runtimeClassName"), s.RuntimeClassName, check.DNSName)
	for i, g := range s.ReadinessGates {
		check.QualifiedName(spec.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType))
	}
	var gates fieldrules.Seen[string]
	for i, g := range s.SchedulingGates {
		gate := spec.Child("schedulingGates").Index(i)
		check.QualifiedName(gate, g.Name)
		if !gates.Add(g.Name) {
			gate.Duplicate(g.Name)
		}
	}
}

func podNetwork(spec check.Field, s *corev1.PodSpec) {
	check.IfSet(spec.Child("hostname"), s.Hostname, check.DNSLabel)
	if s.HostnameOverride != nil {
		hostnameOverride(spec.Child("hostnameOverride"), s)
	}
	check.IfSet(spec.Child("subdomain"), s.Subdomain, check.DNSLabel)
	for i, a := range s.HostAliases {
		alias := spec.Child("hostAliases").Index(i)
		address(alias.Child("ip"), a.IP)
		for j, name := range a.Hostnames {
			check.DNSName(alias.Child("hostnames").Index(j), name)
		}
	}
	if s.DNSConfig != nil || s.DNSPolicy == corev1.DNSNone {
		dnsConfig(spec.Child("dnsConfig"), s)
	}
}

// address checks an IP address.
func address(at check.Field, ip string) {
	at.Report(validation.IsValidIPForLegacyField(at.Path.Field(), ip, true, nil)...)
}

// maxHostname is the length of the longest host name of Linux.
const maxHostname = 64

// hostnameOverride checks a name that replaces the host name of a pod.
//
//upstream:pkg/apis/core/validation.validatePodHostName
func hostnameOverride(at check.Field, s *corev1.PodSpec) {
	check.Forbid(at, s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN, "may not be specified when setHostnameAsFQDN is true")
	check.Forbid(at, s.HostNetwork, "may not be specified when hostNetwork is true")
	if len(*s.HostnameOverride) > maxHostname {
		at.TooLong(maxHostname)
	}
	check.DNSName(at, *s.HostnameOverride)
}

const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
)

// dnsConfig checks the DNS policy and configuration of a pod.
//
//upstream:pkg/apis/core/validation.validatePodDNSConfig
func dnsConfig(at check.Field, s *corev1.PodSpec) {
	c, nameservers, searches := s.DNSConfig, at.Child("nameservers"), at.Child("searches")
	if c == nil {
		at.Required("must provide `dnsConfig` when `dnsPolicy` is None")
		return
	}
	if s.DNSPolicy == corev1.DNSNone && len(c.Nameservers) == 0 {
		nameservers.Required("must provide at least one DNS nameserver when `dnsPolicy` is None")
		return
	}
	if len(c.Nameservers) > maxNameservers {
		nameservers.Invalidf(c.Nameservers, "must not have more than %d nameservers", maxNameservers)
	}
	for i, ip := range c.Nameservers {
		address(nameservers.Index(i), ip)
	}
	if len(c.Searches) > maxSearches {
		searches.Invalidf(c.Searches, "must not have more than %d search paths", maxSearches)
	}
	length := len(c.Searches) - 1 // of the spaces
	for _, search := range c.Searches {
		length += len(search)
	}
	if length > maxSearchLength {
		searches.Invalidf(c.Searches, "must not have more than %d characters (including spaces) in the search list", maxSearchLength)
	}
	for i, search := range c.Searches {
		if search != "." {
			check.Valid(searches.Index(i), strings.TrimSuffix(search, "."), validation.IsDNS1123SubdomainWithUnderscore)
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			at.Child("options").Index(i).Required("must not be empty")
		}
	}
}

// podSecurity checks the security context of a pod.
//
//upstream:pkg/apis/core/validation.validatePodSpecSecurityContext
//upstream:pkg/apis/core/validation.validateShareProcessNamespace
func (r *rules) podSecurity(spec check.Field, s *corev1.PodSpec) {
	if s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && s.HostPID {
		spec.Child("shareProcessNamespace").Invalid(true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	c, at := s.SecurityContext, spec.Child("securityContext")
	if c == nil {
		return
	}
	check.Optional(at.Child("runAsUser"), c.RunAsUser, userID)
	check.Optional(at.Child("runAsGroup"), c.RunAsGroup, groupID)
	check.Optional(at.Child("fsGroup"), c.FSGroup, groupID)
	for i, g := range c.SupplementalGroups {
		groupID(at.Child("supplementalGroups").Index(i), g)
	}
	check.OptionalOneOf(at.Child("fsGroupChangePolicy"), c.FSGroupChangePolicy,
		corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	seccomp(at.Child("seccompProfile"), c.SeccompProfile)
	appArmor(at.Child("appArmorProfile"), c.AppArmorProfile)
	windowsOptions(at.Child("windowsOptions"), c.WindowsOptions)
	check.OptionalOneOf(at.Child("supplementalGroupsPolicy"), c.SupplementalGroupsPolicy,
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	check.OptionalOneOf(at.Child("seLinuxChangePolicy"), c.SELinuxChangePolicy,
		corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	r.sysctls(at.Child("sysctls"), s)
}

//upstream:pkg/apis/core/validation.validateSeccompProfileField
func seccomp(at check.Field, p *corev1.SeccompProfile) {
	if p == nil {
		return
	}
	if p.Type == "" {
		at.Child("type").Required("type is required when seccompProfile is set")
	} else {
		check.OneOf(at.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost,
			corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	switch path := at.Child("localhostProfile"); {
	case p.Type != corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			path.Invalid(fieldrules.Internal(*p), "can only be set when seccomp type is Localhost")
		}
	case p.LocalhostProfile == nil:
		path.Required("must be set when seccomp type is Localhost")
	default:
		localPath(path, *p.LocalhostProfile)
	}
}

func userID(at check.Field, id int64)  { check.Valid(at, id, validation.IsValidUserID) }
func groupID(at check.Field, id int64) { check.Valid(at, id, validation.IsValidGroupID) }

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
