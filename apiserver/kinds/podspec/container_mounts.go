package podspec

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// mounts checks the mounts and devices of a container. Their volumes must exist.
//
//upstream:pkg/apis/core/validation.ValidateVolumeMounts
func mounts(c *corev1.Container, volumes volumeIndex, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var paths, deviceNames, devicePaths fieldrules.Seen[string]
	for _, d := range c.VolumeDevices {
		deviceNames.Add(d.Name)
		devicePaths.Add(d.DevicePath)
	}
	list := fldPath.Child("volumeMounts")
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], list.Index(i)
		errs = append(errs, fieldrules.Required(m.Name, &at, "name")...)
		if volumes.find(m.Name) == nil {
			errs = append(errs, field.NotFound(at.ChildField("name"), m.Name))
		}
		errs = append(errs, fieldrules.Required(m.MountPath, &at, "mountPath")...)
		if !paths.Add(m.MountPath) {
			errs = append(errs, field.Invalid(at.ChildField("mountPath"), m.MountPath, "must be unique"))
		}
		if deviceNames.Has(m.Name) {
			errs = append(errs, field.Invalid(at.ChildField("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(at.ChildField("mountPath"), m.MountPath,
				"must not already exist as a path in volumeDevices"))
		}
		// The paths of kube-apiserver's errors do not have the index from here on.
		errs = append(errs, localPath(m.SubPath, &list, "subPath")...)
		errs = append(errs, localPath(m.SubPathExpr, &list, "subPathExpr")...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(at.ChildField("subPathExpr"), m.SubPathExpr,
				"subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, propagation(m, c, &list)...)
	}
	return append(errs, devices(c, volumes, fldPath)...)
}

// propagation checks how mounts propagate, and whether those below them are read-only.
//
//upstream:pkg/apis/core/validation.validateMountPropagation
//upstream:pkg/apis/core/validation.validateMountRecursiveReadOnly
func propagation(m *corev1.VolumeMount, c *corev1.Container, list *fieldrules.Path) field.ErrorList {
	errs := fieldrules.OptionalOneOf(m.MountPropagation, list, "mountPropagation",
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	mode := corev1.MountPropagationNone
	if m.MountPropagation != nil {
		mode = *m.MountPropagation
	}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if mode == corev1.MountPropagationBidirectional && !privileged {
		errs = append(errs, field.Forbidden(list.ChildField("mountPropagation"),
			"Bidirectional mount propagation is available only to privileged containers"))
	}
	if m.RecursiveReadOnly == nil {
		return errs
	}
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyDisabled:
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			errs = append(errs, field.Forbidden(list.ChildField("recursiveReadOnly"),
				"may only be specified when readOnly is true"))
		}
		if mode != corev1.MountPropagationNone {
			errs = append(errs, field.Forbidden(list.ChildField("recursiveReadOnly"),
				"may only be specified when mountPropagation is None or not specified"))
		}
	default:
		errs = append(errs, fieldrules.NotSupported(*m.RecursiveReadOnly, list, "recursiveReadOnly",
			[]corev1.RecursiveReadOnlyMode{corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible,
				corev1.RecursiveReadOnlyEnabled})...)
	}
	return errs
}

// devices checks the block devices of a container.
//
//upstream:pkg/apis/core/validation.ValidateVolumeDevices
func devices(c *corev1.Container, volumes volumeIndex, fldPath *fieldrules.Path) field.ErrorList {
	if len(c.VolumeDevices) == 0 {
		return nil
	}
	var errs field.ErrorList
	var names, paths, mountNames, mountPaths fieldrules.Seen[string]
	for _, m := range c.VolumeMounts {
		mountNames.Add(m.Name)
		mountPaths.Add(m.MountPath)
	}
	list := fldPath.Child("volumeDevices")
	for i := range c.VolumeDevices {
		d, at := &c.VolumeDevices[i], list.Index(i)
		errs = append(errs, fieldrules.Required(d.Name, &at, "name")...)
		if d.Name != "" && !names.Add(d.Name) {
			errs = append(errs, field.Invalid(at.ChildField("name"), d.Name, "must be unique"))
		}
		switch v := volumes.find(d.Name); {
		case v == nil:
			errs = append(errs, field.NotFound(at.ChildField("name"), d.Name))
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			errs = append(errs, field.Invalid(at.ChildField("name"), d.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		errs = append(errs, fieldrules.Required(d.DevicePath, &at, "devicePath")...)
		if !paths.Add(d.DevicePath) {
			errs = append(errs, field.Invalid(at.ChildField("devicePath"), d.DevicePath, "must be unique"))
		}
		if len(WithoutBacksteps(d.DevicePath, &at, "devicePath")) > 0 {
			errs = append(errs, field.Invalid(at.ChildField("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		}
		if mountNames.Has(d.Name) {
			errs = append(errs, field.Invalid(at.ChildField("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(at.ChildField("devicePath"), d.DevicePath,
				"must not already exist as a path in volumeMounts"))
		}
	}
	return errs
}

// localPath checks that a path, which may be empty, is relative and does not contain "..".
//
//upstream:pkg/apis/core/validation.validateLocalDescendingPath
func localPath(p string, fldPath *fieldrules.Path, name string) field.ErrorList {
	if p == "" {
		return nil
	}
	var errs field.ErrorList
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(fldPath.ChildField(name), p, "must be a relative path"))
	}
	return append(errs, WithoutBacksteps(p, fldPath, name)...)
}

// WithoutBacksteps checks that a path has no element "..".
//
//upstream:pkg/apis/core/validation.validatePathNoBacksteps
func WithoutBacksteps(p string, fldPath *fieldrules.Path, name string) field.ErrorList {
	if !strings.Contains(p, "..") {
		return nil
	}
	for step := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		if step == ".." {
			return field.ErrorList{field.Invalid(fldPath.ChildField(name), p, "must not contain '..'")}
		}
	}
	return nil
}
