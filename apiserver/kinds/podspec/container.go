package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// containers checks the containers of a pod.
//
//upstream:pkg/apis/core/validation.validateContainers
func containers(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var regular, ephemeral fieldrules.Seen[string]
	volumes := indexVolumes(s.Volumes)
	list := fldPath.Child("containers")
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(list.Field(), ""))
	}
	for i := range s.Containers {
		at := list.Index(i)
		errs = append(errs, container(&s.Containers[i], s, volumes, &at)...)
		errs = append(errs, handlers(&s.Containers[i], s, &at)...)
		if c := &s.Containers[i]; c.Name != "" && !regular.Add(c.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), c.Name))
		}
		errs = append(errs, restartPolicy(&s.Containers[i], &at)...)
	}
	list = fldPath.Child("initContainers")
	for i := range s.InitContainers {
		at := list.Index(i)
		errs = append(errs, initContainer(&s.InitContainers[i], s, volumes, &regular, &at)...)
	}
	list = fldPath.Child("ephemeralContainers")
	for i := range s.EphemeralContainers {
		at := list.Index(i)
		errs = append(errs, ephemeralContainer(&s.EphemeralContainers[i], s, volumes, &regular, &ephemeral, &at)...)
	}
	return append(errs, hostPorts(s, fldPath)...)
}

func hasContainer(list []corev1.Container, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return true
		}
	}
	return false
}

// HasContainer reports whether a pod has a container of any type with this name.
func HasContainer(s *corev1.PodSpec, name string) bool {
	if hasContainer(s.Containers, name) || hasContainer(s.InitContainers, name) {
		return true
	}
	return slices.ContainsFunc(s.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// Limits of the rules of when a container restarts.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// restartPolicy checks when a container restarts, if it is not as its pod says.
//
//upstream:pkg/apis/core/validation.validateContainerRestartPolicy
func restartPolicy(c *corev1.Container, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if c.RestartPolicy != nil {
		errs = append(errs, fieldrules.Supported(*c.RestartPolicy, fldPath, "restartPolicy", corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(fldPath.ChildField("restartPolicy"),
			"must specify restartPolicy when restart rules are used"))
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
func initContainer(c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex, others *fieldrules.Seen[string],
	fldPath *fieldrules.Path) field.ErrorList {
	errs := append(container(c, s, volumes, fldPath), restartPolicy(c, fldPath)...)
	if c.Name != "" && !others.Add(c.Name) {
		errs = append(errs, field.Duplicate(fldPath.ChildField("name"), c.Name))
	}
	if Sidecar(c) {
		return append(errs, handlers(c, s, fldPath)...)
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
func ephemeralContainer(e *corev1.EphemeralContainer, s *corev1.PodSpec, volumes volumeIndex,
	regular, ephemeral *fieldrules.Seen[string], fldPath *fieldrules.Path) field.ErrorList {
	c := (*corev1.Container)(&e.EphemeralContainerCommon)
	errs := container(c, s, volumes, fldPath)
	if c.Name != "" && (regular.Has(c.Name) || !ephemeral.Add(c.Name)) {
		errs = append(errs, field.Duplicate(fldPath.ChildField("name"), c.Name))
	}
	if e.TargetContainerName != "" && !regular.Has(e.TargetContainerName) {
		errs = append(errs, field.NotFound(fldPath.ChildField("targetContainerName"), e.TargetContainerName))
	}
	const never = "cannot be set for an Ephemeral Container"
	for _, set := range [...]struct {
		field string
		is    bool
	}{
		{"ports", len(c.Ports) > 0}, {"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil}, {"lifecycle", c.Lifecycle != nil},
		{"resources", len(c.Resources.Limits)+len(c.Resources.Requests) > 0},
	} {
		if set.is {
			errs = append(errs, field.Forbidden(fldPath.ChildField(set.field), never))
		}
	}
	return errs
}

// container checks the fields that containers of all types have.
//
//upstream:pkg/apis/core/validation.validateContainerCommon
func container(c *corev1.Container, s *corev1.PodSpec, volumes volumeIndex, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.DNSLabel(c.Name, fldPath, "name")
	errs = append(errs, fieldrules.Required(c.Image, fldPath, "image")...)
	errs = append(errs, fieldrules.OneOf(c.ImagePullPolicy, fldPath, "imagePullPolicy", corev1.PullAlways,
		corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, fldPath, "terminationMessagePolicy",
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, containerPorts(c.Ports, fldPath)...)
	errs = append(errs, environment(c, fldPath)...)
	errs = append(errs, mounts(c, volumes, fldPath)...)
	errs = append(errs, resizePolicy(c.ResizePolicy, s.RestartPolicy, fldPath)...)
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		at := fldPath.Child("resources")
		errs = append(errs, fieldrules.ResourceRequirements(&c.Resources, &at)...)
	}
	return append(errs, containerSecurity(c.SecurityContext, s, fldPath)...)
}

// resizePolicy checks what happens to a container whose resources change.
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
		errs = append(errs, oneOf(p.ResourceName, fldPath, "resizePolicy", corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, oneOf(p.RestartPolicy, fldPath, "resizePolicy", corev1.NotRequired, corev1.RestartContainer)...)
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

// hostPorts checks that no two containers have the same host port.
//
//upstream:pkg/apis/core/validation.checkHostPortConflicts
func hostPorts(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool(nil)
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			if s.HostNetwork && p.HostPort != p.ContainerPort {
				errs = append(errs,
					field.Invalid(fldPath.ChildField("containers").Index(i).Child("ports").Index(j).Child("hostPort"),
						p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs,
					field.Duplicate(fldPath.ChildField("containers").Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			if taken == nil {
				taken = map[string]bool{}
			}
			taken[key] = true
		}
	}
	return errs
}

// containerSecurity checks the security context of a container.
//
//upstream:pkg/apis/core/validation.ValidateSecurityContext
func containerSecurity(c *corev1.SecurityContext, s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
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
	if c.Capabilities != nil {
		for _, added := range c.Capabilities.Add {
			if added == "CAP_SYS_ADMIN" {
				errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(*c),
					"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
			}
		}
	}
	return errs
}
