package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// environment returns the variables of all containers, and their sources.
func environment(spec *corev1.PodSpec) (variables []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		variables, from = append(variables, c.Env...), append(from, c.EnvFrom...)
	}
	for _, c := range spec.EphemeralContainers {
		variables, from = append(variables, c.Env...), append(from, c.EnvFrom...)
	}
	return variables, from
}

// configMapsOf returns the names of the ConfigMaps that a pod refers to.
func configMapsOf(spec *corev1.PodSpec) (names []string) {
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
		switch {
		case v.ConfigMap != nil:
			names = append(names, v.ConfigMap.Name)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					names = append(names, s.ConfigMap.Name)
				}
			}
		}
	}
	return names
}

// secretsOf returns the names of the Secrets that a pod refers to.
func secretsOf(spec *corev1.PodSpec) (names []string) {
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
		names = append(names, secretsOfSource(&v.VolumeSource)...)
	}
	return names
}

// secretsOfSource returns the names of the Secrets that a volume of a pod refers to.
func secretsOfSource(v *corev1.VolumeSource) []string {
	var ref *corev1.LocalObjectReference
	switch {
	case v.Secret != nil:
		return []string{v.Secret.SecretName}
	case v.AzureFile != nil:
		return []string{v.AzureFile.SecretName}
	case v.Projected != nil:
		var names []string
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
		return names
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	}
	if ref == nil {
		return nil
	}
	return []string{ref.Name}
}

// volumeSecrets returns the Secrets of a volume that is bound to a claim, without those that only the
// controller of its driver uses. Older references have no namespace, and are in that of the claim.
func volumeSecrets(v *corev1.PersistentVolume) []corev1.SecretReference {
	var refs []*corev1.SecretReference
	inClaim := true
	switch s := &v.Spec.PersistentVolumeSource; {
	case s.AzureFile != nil:
		ref := &corev1.SecretReference{Name: s.AzureFile.SecretName}
		if s.AzureFile.SecretNamespace != nil {
			ref.Namespace = *s.AzureFile.SecretNamespace
		}
		refs = append(refs, ref)
	case s.CephFS != nil:
		refs = append(refs, s.CephFS.SecretRef)
	case s.FlexVolume != nil:
		refs = append(refs, s.FlexVolume.SecretRef)
	case s.RBD != nil:
		refs = append(refs, s.RBD.SecretRef)
	case s.ScaleIO != nil:
		refs = append(refs, s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		refs = append(refs, s.ISCSI.SecretRef)
	case s.Cinder != nil:
		refs, inClaim = append(refs, s.Cinder.SecretRef), false
	case s.StorageOS != nil:
		if ref := s.StorageOS.SecretRef; ref != nil {
			refs = append(refs, &corev1.SecretReference{Namespace: ref.Namespace, Name: ref.Name})
		}
		inClaim = false
	case s.CSI != nil:
		refs = append(refs, s.CSI.NodePublishSecretRef, s.CSI.NodeStageSecretRef, s.CSI.NodeExpandSecretRef)
		inClaim = false
	}
	var secrets []corev1.SecretReference
	for _, ref := range refs {
		if ref == nil || ref.Name == "" {
			continue
		}
		secret := *ref
		if secret.Namespace == "" && inClaim {
			secret.Namespace = v.Spec.ClaimRef.Namespace
		}
		secrets = append(secrets, secret)
	}
	return secrets
}

// resourceClaimsOf returns the names of the ResourceClaims of a pod. Those that are made from
// templates, or for extended resources, are in its status.
func resourceClaimsOf(pod *corev1.Pod) (names []string) {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
			continue
		}
		for _, s := range pod.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil {
				names = append(names, *s.ResourceClaimName)
			}
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}
