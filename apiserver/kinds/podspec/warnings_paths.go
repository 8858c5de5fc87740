package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// placed is the path of a file in a volume, and where its content comes from.
type placed struct{ path, source string }

func (p placed) String() string {
	if p.source == "" {
		return fmt.Sprintf("%q", p.path)
	}
	return fmt.Sprintf("%q (%s)", p.path, p.source)
}

// paths warns of files of a volume that replace each other.
//
//upstream:pkg/api/pod.warningsForOverlappingVirtualPaths
func (w *warner) paths(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		w.overlaps(v, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), placeKeys(v.ConfigMap.Items, ""))
	case v.Secret != nil:
		w.overlaps(v, fmt.Sprintf("Secret %q", v.Secret.SecretName), placeKeys(v.Secret.Items, ""))
	case v.DownwardAPI != nil:
		w.overlaps(v, "DownwardAPI", placeFiles(v.DownwardAPI.Items, ""))
	case v.Projected != nil:
		var all []placed
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if *s == (corev1.VolumeProjection{}) {
				w.warnings = append(w.warnings, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
				continue
			}
			all = append(all, placeSource(s)...)
		}
		w.overlaps(v, "Projected", all)
	}
}

// overlaps warns of each pair of paths if one path is the other or a folder on the way to it.
//
//upstream:pkg/api/pod.checkVolumeMappingForOverlap
//upstream:pkg/api/pod.checkForOverlap
func (w *warner) overlaps(v *corev1.Volume, description string, all []placed) {
	for i := range all {
		all[i].path = strings.TrimRight(all[i].path, "/")
	}
	if len(all)*len(all) > maxCompared {
		return
	}
	for i, p := range all {
		for j := 0; j < i && p.path != ""; j++ {
			o := all[j]
			if p.path == o.path || o.path != "" && strings.HasPrefix(p.path, o.path+"/") || strings.HasPrefix(o.path, p.path+"/") {
				w.warnings = append(w.warnings, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", v.Name, description, p, o))
			}
		}
	}
}

func placeKeys(items []corev1.KeyToPath, source string) []placed {
	var all []placed
	for _, item := range items {
		all = append(all, placed{item.Path, source})
	}
	return all
}

func placeFiles(items []corev1.DownwardAPIVolumeFile, source string) []placed {
	var all []placed
	for _, item := range items {
		all = append(all, placed{item.Path, source})
	}
	return all
}

// placeSource returns the files of a source of a projected volume.
func placeSource(s *corev1.VolumeProjection) []placed {
	switch {
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		return placeKeys(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		return placeKeys(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		return placeFiles(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return []placed{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		if name == nil { // an error
			return nil
		}
		return []placed{{s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case s.PodCertificate != nil:
		var all []placed
		for _, p := range [...]placed{{s.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{s.PodCertificate.KeyPath, "PodCertificate key"}, {s.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"}} {
			if p.path != "" {
				all = append(all, p)
			}
		}
		return all
	}
	return nil
}
