package admission

import (
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/podrefs"
)

// referencedBy returns the types of API objects that a pod refers to, in the words of kube-apiserver, or "".
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPodCreate
func referencedBy(pod *corev1.Pod) string {
	switch {
	case pod.Spec.ServiceAccountName != "":
		return "serviceaccounts"
	case len(podrefs.Secrets(&pod.Spec)) > 0:
		return "secrets"
	case len(podrefs.ConfigMaps(&pod.Spec)) > 0:
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
