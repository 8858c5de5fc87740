package podspec

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// containers checks the containers of a pod.
//
//upstream:pkg/apis/core/validation.validateContainers
func (r *rules) containers(spec check.Field, s *corev1.PodSpec) {
	var regular, ephemeral fieldrules.Seen[string]
	volumes := indexVolumes(s.Volumes)
	containers, inits, ephemerals := spec.Child("containers"), spec.Child("initContainers"), spec.Child("ephemeralContainers")
	if len(s.Containers) == 0 {
		containers.Required("")
	}
	for i := range s.Containers {
		at, c := containers.Index(i), &s.Containers[i]
		r.container(at, c, s, volumes)
		handlers(at, c, s)
		if !regular.Add(c.Name) {
			at.Child("name").Duplicate(c.Name)
		}
		restartPolicy(at, c)
	}
	hostPorts(containers, s.Containers)
	hostNetworkPorts(containers, s, r.pod != nil)
	for i := range s.InitContainers {
		r.initContainer(inits.Index(i), &s.InitContainers[i], s, volumes, &regular)
		hostPorts(inits, s.InitContainers[i:i+1]) // one by one, as init containers run; as in kube-apiserver, the path has the index 0
	}
	for i := range s.InitContainers { // also the empty names, which initContainer leaves out
		regular.Add(s.InitContainers[i].Name)
	}
	for i := range s.EphemeralContainers {
		r.ephemeralContainer(ephemerals.Index(i), &s.EphemeralContainers[i], s, volumes, &regular, &ephemeral)
	}
}

// Limits of the rules of when a container restarts.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// noRestartPolicy is the error for rules without a policy.
const noRestartPolicy = "must specify restartPolicy when restart rules are used"

// restartPolicy checks when a container restarts, if it is not as its pod says.
//
//upstream:pkg/apis/core/validation.validateContainerRestartPolicy
func restartPolicy(at check.Field, c *corev1.Container) {
	check.OptionalOneOf(at.Child("restartPolicy"), c.RestartPolicy, corev1.ContainerRestartPolicyAlways,
		corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	if c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0 {
		at.Child("restartPolicy").Required(noRestartPolicy)
	}
	list := at.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		list.TooMany(n, maxRestartRules)
	}
	for i := range c.RestartPolicyRules {
		rule, r := list.Index(i), &c.RestartPolicyRules[i]
		check.Supported(rule.Child("action"), r.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := rule.Child("exitCodes")
		if r.ExitCodes == nil {
			codes.Required("must be specified")
			continue
		}
		check.Supported(codes.Child("operator"), r.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			codes.Child("values").TooMany(n, maxExitCodes)
		}
	}
}

// Sidecar reports whether an init container is a sidecar, which keeps running.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// initContainer checks an init container. others are the names of the containers, and of the init containers before c. initContainer
// adds the name of c.
//
//upstream:pkg/apis/core/validation.validateInitContainers
//upstream:pkg/apis/core/validation.validateInitContainerRestartPolicy
func (r *rules) initContainer(at check.Field, c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex, others *fieldrules.Seen[string]) {
	r.container(at, c, s, volumes)
	if c.RestartPolicy != nil {
		restartPolicy(at, c)
	} else if len(c.RestartPolicyRules) > 0 {
		at.Child("restartPolicy").Required(noRestartPolicy)
	}
	if others.Has(c.Name) || c.Name != "" && !others.Add(c.Name) {
		at.Child("name").Duplicate(c.Name)
	}
	if Sidecar(c) {
		handlers(at, c, s)
		return
	}
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer && !r.restartInit {
			at.Child("resizePolicy").Index(i).Child("restartPolicy").Invalid(p.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
	const only = "may not be set for init containers without restartPolicy=Always"
	check.Forbid(at.Child("lifecycle"), c.Lifecycle != nil, only)
	check.Forbid(at.Child("livenessProbe"), c.LivenessProbe != nil, only)
	check.Forbid(at.Child("readinessProbe"), c.ReadinessProbe != nil, only)
	check.Forbid(at.Child("startupProbe"), c.StartupProbe != nil, only)
}

// ephemeralContainer checks an ephemeral container and its target. regular are the names of the containers and init
// containers, and ephemeral the names of ephemeral containers before it.
//
//upstream:pkg/apis/core/validation.validateEphemeralContainers
func (r *rules) ephemeralContainer(at check.Field, e *corev1.EphemeralContainer, s *corev1.PodSpec, volumes volumeIndex,
	regular, ephemeral *fieldrules.Seen[string]) {
	c := (*corev1.Container)(&e.EphemeralContainerCommon)
	r.container(at, c, s, volumes)
	if c.Image != strings.TrimSpace(c.Image) {
		at.Child("image").Invalid(c.Image, PaddedImage)
	}
	if regular.Has(c.Name) || !ephemeral.Add(c.Name) {
		at.Child("name").Duplicate(c.Name)
	}
	if e.TargetContainerName != "" && !regular.Has(e.TargetContainerName) {
		at.Child("targetContainerName").NotFound(e.TargetContainerName)
	}
	const never = "cannot be set for an Ephemeral Container"
	check.Forbid(at.Child("ports"), c.Ports != nil, never)
	check.Forbid(at.Child("livenessProbe"), c.LivenessProbe != nil, never)
	check.Forbid(at.Child("readinessProbe"), c.ReadinessProbe != nil, never)
	check.Forbid(at.Child("startupProbe"), c.StartupProbe != nil, never)
	check.Forbid(at.Child("lifecycle"), c.Lifecycle != nil, never)
	check.Forbid(at.Child("resources"), !reflect.DeepEqual(c.Resources, corev1.ResourceRequirements{}), never)
	check.Forbid(at.Child("resizePolicy"), c.ResizePolicy != nil, never)
	check.Forbid(at.Child("restartPolicy"), c.RestartPolicy != nil, never)
	check.Forbid(at.Child("restartPolicyRules"), c.RestartPolicyRules != nil, never)
	for i, m := range c.VolumeMounts {
		mount := at.Child("volumeMounts").Index(i)
		check.Forbid(mount.Child("subPath"), m.SubPath != "", never)
		check.Forbid(mount.Child("subPathExpr"), m.SubPathExpr != "", never)
	}
}

// container checks the fields that containers of all types have.
//
//upstream:pkg/apis/core/validation.validateContainerCommon
func (r *rules) container(at check.Field, c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex) {
	check.DNSLabel(at.Child("name"), c.Name)
	check.Required(at.Child("image"), c.Image)
	check.OneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	check.OneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	containerPorts(at.Child("ports"), c.Ports)
	environment(at, c)
	mounts(at, c, volumes)
	resizePolicy(at.Child("resizePolicy"), c.ResizePolicy, s.RestartPolicy)
	check.Resources(at.Child("resources"), &c.Resources, false, r.anyPages)
	r.containerSecurity(at.Child("securityContext"), c.SecurityContext, s)
}

// resizePolicy checks the actions when the resources of a container change. As in kube-apiserver, only the path of a
// duplicate has the index.
//
//upstream:pkg/apis/core/validation.validateResizePolicy
func resizePolicy(at check.Field, list []corev1.ContainerResizePolicy, restart corev1.RestartPolicy) {
	var seen fieldrules.Seen[corev1.ResourceName]
	for i, p := range list {
		if !seen.Add(p.ResourceName) {
			at.Index(i).Duplicate(p.ResourceName)
		}
		check.OneOf(at, p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		check.OneOf(at, p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			at.Invalid(p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

// containerPorts checks the ports of a container.
//
//upstream:pkg/apis/core/validation.validateContainerPorts
func containerPorts(list check.Field, ports []corev1.ContainerPort) {
	var names fieldrules.Seen[string]
	for i := range ports {
		at, p := list.Index(i), &ports[i]
		if name := at.Child("name"); p.Name != "" {
			messages := validation.IsValidPortName(p.Name)
			check.Messages(name, p.Name, messages)
			if len(messages) == 0 && !names.Add(p.Name) {
				name.Duplicate(p.Name)
			}
		}
		if p.ContainerPort == 0 {
			at.Child("containerPort").Required("")
		} else {
			check.Port(at.Child("containerPort"), p.ContainerPort)
		}
		check.IfSet(at.Child("hostPort"), p.HostPort, check.Port)
		check.OneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// hostPorts checks that no two ports of the containers have the same host port, protocol and host IP.
//
//upstream:pkg/apis/core/validation.checkHostPortConflicts
//upstream:pkg/apis/core/validation.AccumulateUniqueHostPorts
func hostPorts(list check.Field, containers []corev1.Container) {
	var taken fieldrules.Seen[string]
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if !taken.Add(key) {
				list.Index(i).Child("ports").Index(j).Child("hostPort").Duplicate(key)
			}
		}
	}
}

// hostNetworkPorts checks that the ports of a pod in the network of its host are ports of the host.
//
//upstream:pkg/apis/core/validation.validatePodHostNetworkDeps
func hostNetworkPorts(list check.Field, s *corev1.PodSpec, pod bool) {
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if s.HostNetwork && (pod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				list.Index(i).Child("ports").Index(j).Child("hostPort").Invalid(p.HostPort,
					"must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// PaddedImage is the error for an image with spaces around its name.
const PaddedImage = "must not have leading or trailing whitespace"

// containerSecurity checks the security context of a container.
//
//upstream:pkg/apis/core/validation.ValidateSecurityContext
func (r *rules) containerSecurity(at check.Field, c *corev1.SecurityContext, s *corev1.PodSpec) {
	if c == nil {
		return
	}
	check.Optional(at.Child("runAsUser"), c.RunAsUser, userID)
	check.Optional(at.Child("runAsGroup"), c.RunAsGroup, groupID)
	seccomp(at.Child("seccompProfile"), c.SeccompProfile)
	appArmor(at.Child("appArmorProfile"), c.AppArmorProfile)
	windowsOptions(at.Child("windowsOptions"), c.WindowsOptions)
	check.OptionalOneOf(at.Child("procMount"), c.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
	if c.ProcMount != nil && *c.ProcMount == corev1.UnmaskedProcMount && (s.HostUsers == nil || *s.HostUsers) {
		at.Child("procMount").Invalid(*c.ProcMount, "`hostUsers` must be false to use `Unmasked`")
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		return
	}
	if c.Privileged != nil && *c.Privileged {
		at.Invalid(fieldrules.Internal(*c), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if c.Capabilities != nil && !r.sysAdmin {
		for _, added := range c.Capabilities.Add {
			if added == "CAP_SYS_ADMIN" {
				at.Invalid(fieldrules.Internal(*c), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
			}
		}
	}
}
