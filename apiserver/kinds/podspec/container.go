package podspec

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// containers checks the containers of a pod.
//
//upstream:pkg/apis/core/validation.validateContainers
func (r *rules) containers(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var regular, ephemeral fieldrules.Seen[string]
	volumes := indexVolumes(s.Volumes)
	list := fldPath.Child("containers")
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(list.Field(), ""))
	}
	for i := range s.Containers {
		at := list.Index(i)
		c := &s.Containers[i]
		errs = append(errs, r.container(c, s, volumes, &at)...)
		errs = append(errs, handlers(c, s, &at)...)
		if !regular.Add(c.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), c.Name))
		}
		errs = append(errs, restartPolicy(c, &at)...)
	}
	errs = append(errs, hostPorts(s.Containers, &list)...)
	errs = append(errs, hostNetworkPorts(s, r.pod != nil, &list)...)
	list = fldPath.Child("initContainers")
	for i := range s.InitContainers {
		at := list.Index(i)
		errs = append(errs, r.initContainer(&s.InitContainers[i], s, volumes, &regular, &at)...)
		errs = append(errs, hostPorts(s.InitContainers[i:i+1], &list)...)
	}
	for i := range s.InitContainers {
		regular.Add(s.InitContainers[i].Name)
	}
	list = fldPath.Child("ephemeralContainers")
	for i := range s.EphemeralContainers {
		at := list.Index(i)
		errs = append(errs, r.ephemeralContainer(&s.EphemeralContainers[i], s, volumes, &regular, &ephemeral, &at)...)
	}
	return errs
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
func restartPolicy(c *corev1.Container, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if c.RestartPolicy != nil {
		errs = append(errs, fieldrules.Supported(*c.RestartPolicy, fldPath, "restartPolicy", corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(fldPath.ChildField("restartPolicy"), noRestartPolicy))
	}
	list := fldPath.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		errs = append(errs, field.TooMany(list.Field(), n, maxRestartRules))
	}
	for i := range c.RestartPolicyRules {
		rule, at := &c.RestartPolicyRules[i], list.Index(i)
		errs = append(errs, fieldrules.Supported(rule.Action, &at, "action", corev1.ContainerRestartRuleActionRestart,
			corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.ChildField("exitCodes"), "must be specified"))
			continue
		}
		codes := at.Child("exitCodes")
		errs = append(errs, fieldrules.Supported(rule.ExitCodes.Operator, &codes, "operator",
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(codes.ChildField("values"), n, maxExitCodes))
		}
	}
	return errs
}

// Sidecar reports whether an init container is a sidecar, which keeps running.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// initContainer checks an init container. others are the names of containers that the pod has beside it.
//
//upstream:pkg/apis/core/validation.validateInitContainers
//upstream:pkg/apis/core/validation.validateInitContainerRestartPolicy
func (r *rules) initContainer(c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex, others *fieldrules.Seen[string],
	fldPath *fieldrules.Path) field.ErrorList {
	errs := r.container(c, s, volumes, fldPath)
	if c.RestartPolicy != nil {
		errs = append(errs, restartPolicy(c, fldPath)...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(fldPath.ChildField("restartPolicy"), noRestartPolicy))
	}
	if others.Has(c.Name) || c.Name != "" && !others.Add(c.Name) {
		errs = append(errs, field.Duplicate(fldPath.ChildField("name"), c.Name))
	}
	if Sidecar(c) {
		return append(errs, handlers(c, s, fldPath)...)
	}
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer && !r.restartInit {
			errs = append(errs, field.Invalid(fldPath.ChildField("resizePolicy").Index(i).Child("restartPolicy"),
				p.RestartPolicy, "must not be set to 'RestartContainer' for non-sidecar initContainers"))
		}
	}
	const only = "may not be set for init containers without restartPolicy=Always"
	for _, set := range [...]struct {
		field string
		is    bool
	}{
		{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
	} {
		if set.is {
			errs = append(errs, field.Forbidden(fldPath.ChildField(set.field), only))
		}
	}
	return errs
}

// ephemeralContainer checks an ephemeral container and its target. regular are the names of the containers and init
// containers, and ephemeral the names of ephemeral containers before it.
//
//upstream:pkg/apis/core/validation.validateEphemeralContainers
func (r *rules) ephemeralContainer(e *corev1.EphemeralContainer, s *corev1.PodSpec, volumes volumeIndex,
	regular, ephemeral *fieldrules.Seen[string], fldPath *fieldrules.Path) field.ErrorList {
	c := (*corev1.Container)(&e.EphemeralContainerCommon)
	errs := r.container(c, s, volumes, fldPath)
	if image := c.Image; image != strings.TrimSpace(image) {
		errs = append(errs, field.Invalid(fldPath.ChildField("image"), image, PaddedImage))
	}
	if regular.Has(c.Name) || !ephemeral.Add(c.Name) {
		errs = append(errs, field.Duplicate(fldPath.ChildField("name"), c.Name))
	}
	if e.TargetContainerName != "" && !regular.Has(e.TargetContainerName) {
		errs = append(errs, field.NotFound(fldPath.ChildField("targetContainerName"), e.TargetContainerName))
	}
	const never = "cannot be set for an Ephemeral Container"
	resources := !reflect.DeepEqual(c.Resources, corev1.ResourceRequirements{})
	for _, set := range [...]struct {
		field string
		is    bool
	}{
		{"ports", c.Ports != nil}, {"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil}, {"lifecycle", c.Lifecycle != nil},
		{"resources", resources}, {"resizePolicy", c.ResizePolicy != nil}, {"restartPolicy", c.RestartPolicy != nil},
		{"restartPolicyRules", c.RestartPolicyRules != nil},
	} {
		if set.is {
			errs = append(errs, field.Forbidden(fldPath.ChildField(set.field), never))
		}
	}
	for i, m := range c.VolumeMounts {
		at := func() *field.Path { return fldPath.ChildField("volumeMounts").Index(i) }
		if m.SubPath != "" {
			errs = append(errs, field.Forbidden(at().Child("subPath"), never))
		}
		if m.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at().Child("subPathExpr"), never))
		}
	}
	return errs
}

// container checks the fields that containers of all types have.
//
//upstream:pkg/apis/core/validation.validateContainerCommon
func (r *rules) container(c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.DNSLabel(c.Name, fldPath, "name")
	errs = append(errs, fieldrules.Required(c.Image, fldPath, "image")...)
	errs = append(errs, fieldrules.OneOf(c.ImagePullPolicy, fldPath, "imagePullPolicy", corev1.PullAlways,
		corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOfInOrder(c.TerminationMessagePolicy, fldPath, "terminationMessagePolicy",
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, containerPorts(c.Ports, fldPath)...)
	errs = append(errs, environment(c, fldPath)...)
	errs = append(errs, mounts(c, volumes, fldPath)...)
	errs = append(errs, resizePolicy(c.ResizePolicy, s.RestartPolicy, fldPath)...)
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		at := fldPath.Child("resources")
		errs = append(errs, fieldrules.ResourceRequirements(&c.Resources, &at, fieldrules.ContainerResource, r.anyPages)...)
	}
	return append(errs, r.containerSecurity(c.SecurityContext, s, fldPath)...)
}

// resizePolicy checks what happens to a container when its resources change.
//
//upstream:pkg/apis/core/validation.validateResizePolicy
func resizePolicy(list []corev1.ContainerResizePolicy, restart corev1.RestartPolicy, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var seen fieldrules.Seen[corev1.ResourceName]
	for i, p := range list {
		at := fldPath.ChildField("resizePolicy")
		if !seen.Add(p.ResourceName) {
			errs = append(errs, field.Duplicate(at.Index(i), p.ResourceName))
		}
		errs = append(errs, fieldrules.OneOf(p.ResourceName, fldPath, "resizePolicy", corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, fieldrules.OneOf(p.RestartPolicy, fldPath, "resizePolicy", corev1.NotRequired, corev1.RestartContainer)...)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(at, p.RestartPolicy,
				"must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// containerPorts checks the ports of a container.
//
//upstream:pkg/apis/core/validation.validateContainerPorts
func containerPorts(ports []corev1.ContainerPort, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("ports")
	var names fieldrules.Seen[string]
	for i := range ports {
		p, at := &ports[i], list.Index(i)
		if p.Name != "" {
			if messages := validation.IsValidPortName(p.Name); len(messages) > 0 {
				errs = append(errs, fieldrules.Invalid(messages, p.Name, &at, "name")...)
			} else if !names.Add(p.Name) {
				errs = append(errs, field.Duplicate(at.ChildField("name"), p.Name))
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.ChildField("containerPort"), ""))
		} else {
			errs = append(errs, fieldrules.Port(p.ContainerPort, &at, "containerPort")...)
		}
		if p.HostPort != 0 {
			errs = append(errs, fieldrules.Port(p.HostPort, &at, "hostPort")...)
		}
		errs = append(errs, fieldrules.OneOf(p.Protocol, &at, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)...)
	}
	return errs
}

// hostPorts checks that no two containers of the list have the same host port.
//
//upstream:pkg/apis/core/validation.checkHostPortConflicts
//upstream:pkg/apis/core/validation.AccumulateUniqueHostPorts
func hostPorts(containers []corev1.Container, list *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool(nil)
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs, field.Duplicate(list.Field().Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			if taken == nil {
				taken = map[string]bool{}
			}
			taken[key] = true
		}
	}
	return errs
}

// hostNetworkPorts checks that the ports of a pod in the network of its host are ports of the host.
//
//upstream:pkg/apis/core/validation.validatePodHostNetworkDeps
func hostNetworkPorts(s *corev1.PodSpec, pod bool, list *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if s.HostNetwork && (pod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(list.Field().Index(i).Child("ports").Index(j).Child("hostPort"),
					p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}

// PaddedImage is the error for an image with spaces around its name.
const PaddedImage = "must not have leading or trailing whitespace"

// containerSecurity checks the security context of a container.
//
//upstream:pkg/apis/core/validation.ValidateSecurityContext
func (r *rules) containerSecurity(c *corev1.SecurityContext, s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	at := fldPath.Child("securityContext")
	errs := userAndGroup(c.RunAsUser, c.RunAsGroup, &at)
	errs = append(errs, seccomp(c.SeccompProfile, &at)...)
	errs = append(errs, appArmor(c.AppArmorProfile, &at)...)
	errs = append(errs, windowsOptions(c.WindowsOptions, &at)...)
	errs = append(errs, fieldrules.OptionalOneOf(c.ProcMount, &at, "procMount", corev1.DefaultProcMount,
		corev1.UnmaskedProcMount)...)
	if c.ProcMount != nil && *c.ProcMount == corev1.UnmaskedProcMount && (s.HostUsers == nil || *s.HostUsers) {
		errs = append(errs, field.Invalid(at.ChildField("procMount"), *c.ProcMount,
			"`hostUsers` must be false to use `Unmasked`"))
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		return errs
	}
	if c.Privileged != nil && *c.Privileged {
		errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(*c),
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if c.Capabilities != nil && !r.sysAdmin {
		for _, added := range c.Capabilities.Add {
			if added == "CAP_SYS_ADMIN" {
				errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(*c),
					"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
			}
		}
	}
	return errs
}
