package inputs

import (
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// HasTrustBundles reports whether a volume has files of ClusterTrustBundles.
func HasTrustBundles(v *corev1.Volume) bool {
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ClusterTrustBundle != nil })
}

// TrustAnchors returns the certificates of the ClusterTrustBundles that a volume has, each once, in PEM.
//
//upstream:pkg/kubelet/clustertrustbundle.InformerManager.GetTrustAnchorsByName
//upstream:pkg/kubelet/clustertrustbundle.InformerManager.GetTrustAnchorsBySigner
func TrustAnchors(p *corev1.ClusterTrustBundleProjection, r Reader) ([]byte, error) {
	optional := ptr.Deref(p.Optional, false)
	switch {
	case p.Name != nil:
		bundle, err := r.TrustBundle(*p.Name)
		if apierrors.IsNotFound(err) && optional {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("while getting ClusterTrustBundle: %w", err)
		}
		return anchors(*bundle), nil
	case p.SignerName != nil:
		selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("while parsing label selector: %w", err)
		}
		bundles, err := r.TrustBundles(*p.SignerName, selector)
		if err != nil {
			return nil, fmt.Errorf("while listing ClusterTrustBundles matching label selector %v: %w", p.LabelSelector, err)
		}
		if len(bundles) == 0 && !optional {
			return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
		}
		return anchors(bundles...), nil
	}
	return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
}

// anchors returns the certificates of bundles. Kubelet shuffles them, so no order is promised.
//
//upstream:pkg/kubelet/clustertrustbundle.InformerManager.normalizeTrustAnchors
func anchors(bundles ...certificatesv1.ClusterTrustBundle) (text []byte) {
	all := map[string]bool{}
	for i := range bundles {
		for block, rest := pem.Decode([]byte(bundles[i].Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			all[string(block.Bytes)] = true
		}
	}
	for _, der := range slices.Sorted(maps.Keys(all)) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return text
}
