package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// referencedBy returns what objects of the API a pod refers to, in the words of kube-apiserver, or
// "" for none.
func referencedBy(pod *corev1.Pod) string {
	switch {
	case pod.Spec.ServiceAccountName != "":
		return "serviceaccounts"
	case refersToSecret(&pod.Spec):
		return "secrets"
	case refersToConfigMap(&pod.Spec):
		return "configmaps"
	case len(pod.Spec.ResourceClaims) > 0:
		return "resourceclaims"
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.CSI != nil:
			return "csidrivers (via CSI volumes)"
		case v.Glusterfs != nil:
			return "endpoints (via glusterFS volumes)"
		case v.PersistentVolumeClaim != nil:
			return "persistentvolumeclaims"
		case v.Ephemeral != nil:
			return "persistentvolumeclaims (via ephemeral volumes)"
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				switch {
				case s.ServiceAccountToken != nil:
					return "serviceaccounts (via projected volumes)"
				case s.ClusterTrustBundle != nil:
					return "clustertrustbundles"
				case s.PodCertificate != nil:
					return "podcertificates"
				}
			}
		}
	}
	return ""
}

// variables returns the variables of all containers, and their sources.
func variables(spec *corev1.PodSpec) (env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		env, from = append(env, c.Env...), append(from, c.EnvFrom...)
	}
	for _, c := range spec.EphemeralContainers {
		env, from = append(env, c.Env...), append(from, c.EnvFrom...)
	}
	return env, from
}

func refersToSecret(spec *corev1.PodSpec) bool {
	env, from := variables(spec)
	return len(spec.ImagePullSecrets) > 0 ||
		slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) ||
		slices.ContainsFunc(from, func(f corev1.EnvFromSource) bool { return f.SecretRef != nil }) ||
		slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil || v.AzureFile != nil ||
				v.CephFS != nil && v.CephFS.SecretRef != nil || v.Cinder != nil && v.Cinder.SecretRef != nil ||
				v.FlexVolume != nil && v.FlexVolume.SecretRef != nil || v.RBD != nil && v.RBD.SecretRef != nil ||
				v.ScaleIO != nil && v.ScaleIO.SecretRef != nil || v.ISCSI != nil && v.ISCSI.SecretRef != nil ||
				v.StorageOS != nil && v.StorageOS.SecretRef != nil || v.CSI != nil && v.CSI.NodePublishSecretRef != nil ||
				v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil })
		})
}

func refersToConfigMap(spec *corev1.PodSpec) bool {
	env, from := variables(spec)
	return slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil }) ||
		slices.ContainsFunc(from, func(f corev1.EnvFromSource) bool { return f.ConfigMapRef != nil }) ||
		slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil ||
				v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ConfigMap != nil })
		})
}
