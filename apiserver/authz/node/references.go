package node

import corev1 "k8s.io/api/core/v1"

// volumeSecrets returns the Secrets of a bound volume, except the ones that only the controller of its driver uses. An
// older reference without a namespace refers to the namespace of the claim.
//
//upstream:pkg/api/v1/persistentvolume.VisitPVSecretNames
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

// resourceClaimsOf returns the names of the ResourceClaims of a pod. The status lists the claims that were created from
// templates or for extended resources.
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
