package podspec

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// mounts checks the mounts and devices of a container. Their volumes must exist.
//
//upstream:pkg/apis/core/validation.ValidateVolumeMounts
func mounts(container check.Field, c *corev1.Container, volumes volumeIndex) {
	var paths, deviceNames, devicePaths fieldrules.Seen[string]
	for _, d := range c.VolumeDevices {
		deviceNames.Add(d.Name)
		devicePaths.Add(d.DevicePath)
	}
	list := container.Child("volumeMounts")
	for i := range c.VolumeMounts {
		at, m := list.Index(i), &c.VolumeMounts[i]
		check.Required(at.Child("name"), m.Name)
		if volumes.find(m.Name) == nil {
			at.Child("name").NotFound(m.Name)
		}
		check.Required(at.Child("mountPath"), m.MountPath)
		if !paths.Add(m.MountPath) {
			at.Child("mountPath").Invalid(m.MountPath, "must be unique")
		}
		if deviceNames.Has(m.Name) {
			at.Child("name").Invalid(m.Name, "must not already exist in volumeDevices")
		}
		if devicePaths.Has(m.MountPath) {
			at.Child("mountPath").Invalid(m.MountPath, "must not already exist as a path in volumeDevices")
		}
		// The paths of kube-apiserver's errors do not have the index from here on.
		localPath(list.Child("subPath"), m.SubPath)
		localPath(list.Child("subPathExpr"), m.SubPathExpr)
		if m.SubPath != "" && m.SubPathExpr != "" {
			at.Child("subPathExpr").Invalid(m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		propagation(list, m, c)
	}
	devices(container.Child("volumeDevices"), c, volumes)
}

// propagation checks how mounts propagate, and whether those below them are read-only.
//
//upstream:pkg/apis/core/validation.validateMountPropagation
//upstream:pkg/apis/core/validation.validateMountRecursiveReadOnly
func propagation(list check.Field, m *corev1.VolumeMount, c *corev1.Container) {
	check.OptionalOneOf(list.Child("mountPropagation"), m.MountPropagation,
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	mode := corev1.MountPropagationNone
	if m.MountPropagation != nil {
		mode = *m.MountPropagation
	}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	check.Forbid(list.Child("mountPropagation"), mode == corev1.MountPropagationBidirectional && !privileged,
		"Bidirectional mount propagation is available only to privileged containers")
	if m.RecursiveReadOnly == nil {
		return
	}
	switch at := list.Child("recursiveReadOnly"); *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyDisabled:
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		check.Forbid(at, !m.ReadOnly, "may only be specified when readOnly is true")
		check.Forbid(at, mode != corev1.MountPropagationNone, "may only be specified when mountPropagation is None or not specified")
	default:
		check.OptionalOneOf(at, m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled,
			corev1.RecursiveReadOnlyIfPossible)
	}
}

// devices checks the block devices of a container.
//
//upstream:pkg/apis/core/validation.ValidateVolumeDevices
func devices(list check.Field, c *corev1.Container, volumes volumeIndex) {
	if len(c.VolumeDevices) == 0 {
		return
	}
	var names, paths, mountNames, mountPaths fieldrules.Seen[string]
	for _, m := range c.VolumeMounts {
		mountNames.Add(m.Name)
		mountPaths.Add(m.MountPath)
	}
	for i := range c.VolumeDevices {
		d := &c.VolumeDevices[i]
		name, path := list.Index(i).Child("name"), list.Index(i).Child("devicePath")
		check.Required(name, d.Name)
		if d.Name != "" && !names.Add(d.Name) {
			name.Invalid(d.Name, "must be unique")
		}
		switch v := volumes.find(d.Name); {
		case v == nil:
			name.NotFound(d.Name)
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			name.Invalid(d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		check.Required(path, d.DevicePath)
		if !paths.Add(d.DevicePath) {
			path.Invalid(d.DevicePath, "must be unique")
		}
		if hasBacksteps(d.DevicePath) {
			path.Invalid(d.DevicePath, "can not contain backsteps ('..')")
		}
		if mountNames.Has(d.Name) {
			name.Invalid(d.Name, "must not already exist in volumeMounts")
		}
		if mountPaths.Has(d.DevicePath) {
			path.Invalid(d.DevicePath, "must not already exist as a path in volumeMounts")
		}
	}
}

// localPath checks that a path, which may be empty, is relative and does not contain "..".
//
//upstream:pkg/apis/core/validation.validateLocalDescendingPath
func localPath(at check.Field, p string) {
	if path.IsAbs(p) {
		at.Invalid(p, "must be a relative path")
	}
	WithoutBacksteps(at, p)
}

// WithoutBacksteps checks that a path has no element "..".
//
//upstream:pkg/apis/core/validation.validatePathNoBacksteps
func WithoutBacksteps(at check.Field, p string) {
	if hasBacksteps(p) {
		at.Invalid(p, "must not contain '..'")
	}
}

func hasBacksteps(p string) bool {
	return strings.Contains(p, "..") && slices.Contains(strings.Split(strings.ReplaceAll(p, `\`, "/"), "/"), "..")
}
