package kinds

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers checks all containers of a pod together.
func containers(s *corev1.PodSpec, w *where) field.ErrorList {
	var errs field.ErrorList
	list := w.at("containers")
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(list.path(), ""))
	}
	for i := range s.Containers {
		at := list.item(i)
		errs = append(errs, container(&s.Containers[i], s, &at)...)
		errs = append(errs, handlers(&s.Containers[i], s, &at)...)
		if c := &s.Containers[i]; c.Name != "" && hasContainer(s.Containers[:i], c.Name) {
			errs = append(errs, field.Duplicate(at.of("name"), c.Name))
		}
		if p := s.Containers[i].RestartPolicy; p != nil {
			errs = append(errs, oneOf(*p, &at, "restartPolicy", corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
		}
	}
	list = w.at("initContainers")
	for i := range s.InitContainers {
		at := list.item(i)
		errs = append(errs, initContainer(i, s, &at)...)
	}
	list = w.at("ephemeralContainers")
	for i := range s.EphemeralContainers {
		at := list.item(i)
		errs = append(errs, ephemeralContainer(i, s, &at)...)
	}
	return append(errs, hostPorts(s, w)...)
}

func hasContainer(list []corev1.Container, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return true
		}
	}
	return false
}

// sidecar tells whether an init container goes on running beside the others.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func initContainer(i int, s *corev1.PodSpec, w *where) field.ErrorList {
	c := &s.InitContainers[i]
	errs := container(c, s, w)
	if c.Name != "" && (hasContainer(s.Containers, c.Name) || hasContainer(s.InitContainers[:i], c.Name)) {
		errs = append(errs, field.Duplicate(w.of("name"), c.Name))
	}
	if sidecar(c) {
		return append(errs, handlers(c, s, w)...)
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
			errs = append(errs, field.Forbidden(w.of(set.field), only))
		}
	}
	return errs
}

func ephemeralContainer(i int, s *corev1.PodSpec, w *where) field.ErrorList {
	e := &s.EphemeralContainers[i]
	c := (*corev1.Container)(&e.EphemeralContainerCommon)
	errs := container(c, s, w)
	taken := hasContainer(s.Containers, c.Name) || hasContainer(s.InitContainers, c.Name)
	for j := range s.EphemeralContainers[:i] {
		taken = taken || s.EphemeralContainers[j].Name == c.Name
	}
	if c.Name != "" && taken {
		errs = append(errs, field.Duplicate(w.of("name"), c.Name))
	}
	if e.TargetContainerName != "" && !hasContainer(s.Containers, e.TargetContainerName) && !hasContainer(s.InitContainers, e.TargetContainerName) {
		errs = append(errs, field.NotFound(w.of("targetContainerName"), e.TargetContainerName))
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
			errs = append(errs, field.Forbidden(w.of(set.field), never))
		}
	}
	return errs
}

// container checks what containers of all sorts have in common.
func container(c *corev1.Container, s *corev1.PodSpec, w *where) field.ErrorList {
	errs := dnsLabel(c.Name, w, "name")
	errs = append(errs, required(c.Image, w, "image")...)
	errs = append(errs, oneOf(c.ImagePullPolicy, w, "imagePullPolicy", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, w, "terminationMessagePolicy",
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, containerPorts(c.Ports, w)...)
	errs = append(errs, environment(c, w)...)
	errs = append(errs, mounts(c, s, w)...)
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		at := w.at("resources")
		errs = append(errs, resources(&c.Resources, &at)...)
	}
	return append(errs, containerSecurity(c.SecurityContext, s, w)...)
}

func containerPorts(ports []corev1.ContainerPort, w *where) field.ErrorList {
	var errs field.ErrorList
	list := w.at("ports")
	for i := range ports {
		p, at := &ports[i], list.item(i)
		if p.Name != "" {
			if messages := validation.IsValidPortName(p.Name); len(messages) > 0 {
				errs = append(errs, invalid(messages, p.Name, &at, "name")...)
			} else {
				for _, o := range ports[:i] {
					if o.Name == p.Name {
						errs = append(errs, field.Duplicate(at.of("name"), p.Name))
						break
					}
				}
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.of("containerPort"), ""))
		} else {
			errs = append(errs, port(p.ContainerPort, &at, "containerPort")...)
		}
		if p.HostPort != 0 {
			errs = append(errs, port(p.HostPort, &at, "hostPort")...)
		}
		errs = append(errs, oneOf(p.Protocol, &at, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

// hostPorts checks that no two containers want the same port of the host.
func hostPorts(s *corev1.PodSpec, w *where) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool(nil)
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			if s.HostNetwork && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(w.of("containers").Index(i).Child("ports").Index(j).Child("containerPort"), p.ContainerPort, "must match `hostPort` when `hostNetwork` is true"))
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs, field.Duplicate(w.of("containers").Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			if taken == nil {
				taken = map[string]bool{}
			}
			taken[key] = true
		}
	}
	return errs
}

// mounts checks that what a container mounts is there.
func mounts(c *corev1.Container, s *corev1.PodSpec, w *where) field.ErrorList {
	var errs field.ErrorList
	list := w.at("volumeMounts")
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], list.item(i)
		if m.Name == "" {
			errs = append(errs, field.Required(at.of("name"), ""))
		} else if !hasVolume(s, m.Name) {
			errs = append(errs, field.NotFound(at.of("name"), m.Name))
		}
		errs = append(errs, required(m.MountPath, &at, "mountPath")...)
		for _, o := range c.VolumeMounts[:i] {
			if o.MountPath == m.MountPath {
				errs = append(errs, field.Invalid(at.of("mountPath"), m.MountPath, "must be unique"))
				break
			}
		}
		errs = append(errs, localPath(m.SubPath, &at, "subPath")...)
		errs = append(errs, localPath(m.SubPathExpr, &at, "subPathExpr")...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(at.of("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, oneOfIf(m.MountPropagation, &at, "mountPropagation",
			corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
	}
	list = w.at("volumeDevices")
	for i := range c.VolumeDevices {
		d, at := &c.VolumeDevices[i], list.item(i)
		if d.Name == "" {
			errs = append(errs, field.Required(at.of("name"), ""))
		} else if !hasVolume(s, d.Name) {
			errs = append(errs, field.NotFound(at.of("name"), d.Name))
		}
		errs = append(errs, required(d.DevicePath, &at, "devicePath")...)
	}
	return errs
}

func hasVolume(s *corev1.PodSpec, name string) bool {
	for i := range s.Volumes {
		if s.Volumes[i].Name == name {
			return true
		}
	}
	return false
}

// localPath checks a path, if there is one, that may not leave the directory it starts in.
func localPath(p string, w *where, name string) field.ErrorList {
	if p == "" {
		return nil
	}
	var errs field.ErrorList
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(w.of(name), p, "must be a relative path"))
	}
	return append(errs, noBacksteps(p, w, name)...)
}

func noBacksteps(p string, w *where, name string) field.ErrorList {
	if !strings.Contains(p, "..") {
		return nil
	}
	for step := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		if step == ".." {
			return field.ErrorList{field.Invalid(w.of(name), p, "must not contain '..'")}
		}
	}
	return nil
}

func containerSecurity(c *corev1.SecurityContext, s *corev1.PodSpec, w *where) field.ErrorList {
	if c == nil {
		return nil
	}
	at := w.at("securityContext")
	errs := userAndGroup(c.RunAsUser, c.RunAsGroup, &at)
	errs = append(errs, seccomp(c.SeccompProfile, &at)...)
	errs = append(errs, oneOfIf(c.ProcMount, &at, "procMount", corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
	if c.ProcMount != nil && *c.ProcMount == corev1.UnmaskedProcMount && (s.HostUsers == nil || *s.HostUsers) {
		errs = append(errs, field.Invalid(at.of("procMount"), *c.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		return errs
	}
	if c.Privileged != nil && *c.Privileged {
		errs = append(errs, field.Invalid(at.path(), *c, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if c.Capabilities != nil {
		for _, added := range c.Capabilities.Add {
			if added == "CAP_SYS_ADMIN" {
				errs = append(errs, field.Invalid(at.path(), *c, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
			}
		}
	}
	return errs
}
