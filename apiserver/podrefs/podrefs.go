// Package podrefs finds the objects that a pod refers to by name.
package podrefs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// environment returns the environment variables of all containers and their sources.
func environment(spec *corev1.PodSpec) (variables []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		variables, from = append(variables, c.Env...), append(from, c.EnvFrom...)
	}
	for _, c := range spec.EphemeralContainers {
		variables, from = append(variables, c.Env...), append(from, c.EnvFrom...)
	}
	return variables, from
}

// ConfigMaps returns the names of the ConfigMaps that a pod refers to.
func ConfigMaps(spec *corev1.PodSpec) (names []string) {
	variables, from := environment(spec)
	for _, v := range variables {
		if v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil {
			names = append(names, v.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
	for _, f := range from {
		if f.ConfigMapRef != nil {
			names = append(names, f.ConfigMapRef.Name)
		}
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil {
			names = append(names, v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					names = append(names, s.ConfigMap.Name)
				}
			}
		}
	}
	return names
}

// Secrets returns the names of the Secrets that a pod refers to.
func Secrets(spec *corev1.PodSpec) (names []string) {
	for _, s := range spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	variables, from := environment(spec)
	for _, v := range variables {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			names = append(names, v.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, f := range from {
		if f.SecretRef != nil {
			names = append(names, f.SecretRef.Name)
		}
	}
	for _, v := range spec.Volumes {
		names = append(names, volumeSecrets(&v.VolumeSource)...)
	}
	return names
}

// volumeSecrets returns the names of the Secrets that a volume of a pod refers to. It considers all sources of a
// volume, although a volume with several is invalid.
func volumeSecrets(v *corev1.VolumeSource) (names []string) {
	add := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	if v.Secret != nil {
		names = append(names, v.Secret.SecretName)
	}
	if v.AzureFile != nil {
		names = append(names, v.AzureFile.SecretName)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
	}
	if v.CephFS != nil {
		add(v.CephFS.SecretRef)
	}
	if v.Cinder != nil {
		add(v.Cinder.SecretRef)
	}
	if v.FlexVolume != nil {
		add(v.FlexVolume.SecretRef)
	}
	if v.RBD != nil {
		add(v.RBD.SecretRef)
	}
	if v.ScaleIO != nil {
		add(v.ScaleIO.SecretRef)
	}
	if v.ISCSI != nil {
		add(v.ISCSI.SecretRef)
	}
	if v.StorageOS != nil {
		add(v.StorageOS.SecretRef)
	}
	if v.CSI != nil {
		add(v.CSI.NodePublishSecretRef)
	}
	return names
}
