package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// checkToken checks a request for a token: the token is bound to a pod of the node, and either the pod has a volume for
// the audience or the node may request the audience.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitServiceAccount
func (n nodeRestriction) checkToken(ctx context.Context, a admission.Attributes, node string) error {
	request, ok := a.GetObject().(*authenticationv1.TokenRequest)
	if a.GetOperation() != admission.Create || a.GetSubresource() != "token" || !ok {
		return nil
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return errors.New("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := n.pods.Get(ctx, a.GetNamespace(), ref.Name)
	switch {
	case err != nil:
		return err
	case ref.UID != pod.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != node:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return n.checkAudience(ctx, a, request.Spec.Audiences, pod)
}

// checkAudience checks the audiences of a token for a pod. A token without audiences is for the API server.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.validateNodeServiceAccountAudience
func (n nodeRestriction) checkAudience(ctx context.Context, a admission.Attributes, audiences []string, pod *corev1.Pod) error {
	if len(audiences) > 1 {
		return errors.New("node may only request 0 or 1 audiences")
	}
	audience := strings.Join(audiences, "")
	used, err := n.usesAudience(ctx, pod, audience)
	if err != nil {
		return fmt.Errorf("error validating audience %q: %v", audience, err)
	}
	if used {
		return nil
	}
	allowed, err := n.mayRequest(ctx, a, "request-serviceaccounts-token-audience", audience, a.GetName())
	if allowed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %v", a.GetUserInfo().GetName(), audience, err)
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", a.GetUserInfo().GetName(), audience)
}

// mayRequest reports whether the user of a request has a verb on a virtual resource, with the name of a service account
// in the request's namespace.
func (n nodeRestriction) mayRequest(ctx context.Context, a admission.Attributes, verb, resource, account string) (bool, error) {
	decision, _, err := n.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: verb, APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version,
		Resource: resource, Namespace: a.GetNamespace(), Name: account, ResourceRequest: true})
	return decision == authorizer.DecisionAllow, err
}

// usesAudience reports whether a volume of a pod has tokens for an audience: either a projected volume, or the volume
// of a CSI driver, for which the kubelet requests tokens. An error about one volume counts only if no other volume has
// the audience.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.podReferencesAudience
//upstream:plugin/pkg/admission/noderestriction.Plugin.csiDriverHasAudience
func (n nodeRestriction) usesAudience(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		}) {
			return true, nil
		}
		name, err := n.driverOf(ctx, pod, v)
		if err != nil || name == "" {
			errs = append(errs, err)
			continue
		}
		driver, err := n.drivers.Get(ctx, "", name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.ContainsFunc(driver.Spec.TokenRequests, func(r storagev1.TokenRequest) bool { return r.Audience == audience }) {
			return true, nil
		}
	}
	return false, errors.Join(errs...)
}

// driverOf returns the name of the CSI driver of a pod's volume, or "".
func (n nodeRestriction) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return n.driverOfClaim(ctx, pod.Namespace, pod.Name+"-"+v.Name)
	case v.PersistentVolumeClaim != nil:
		return n.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	case v.CSI != nil:
		return v.CSI.Driver, nil
	}
	return migratedDriver(inTree{v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.Cinder != nil, v.AzureDisk != nil,
		v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil}), nil
}

// driverOfClaim returns the name of the CSI driver of a claim's volume, or "".
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.getCSIFromPVC
func (n nodeRestriction) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	claim, err := n.claims.Get(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	volume, err := n.volumes.Get(ctx, "", claim.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	v := &volume.Spec.PersistentVolumeSource
	if v.CSI != nil {
		return v.CSI.Driver, nil
	}
	return migratedDriver(inTree{v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.Cinder != nil, v.AzureDisk != nil,
		v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil}), nil
}

// inTree says which in-tree source of a volume is set, among the types that CSI drivers have replaced.
type inTree struct{ aws, gce, cinder, azureDisk, azureFile, vsphere, portworx bool }

// migratedDriver returns the name of the CSI driver that replaces an in-tree volume type, or "".
//
//upstream:k8s.io/csi-translation-lib.CSITranslator.GetInTreePluginNameFromSpec
func migratedDriver(is inTree) string {
	switch {
	case is.aws:
		return "ebs.csi.aws.com"
	case is.gce:
		return "pd.csi.storage.gke.io"
	case is.cinder:
		return "cinder.csi.openstack.org"
	case is.azureDisk:
		return "disk.csi.azure.com"
	case is.azureFile:
		return "file.csi.azure.com"
	case is.vsphere:
		return "csi.vsphere.vmware.com"
	case is.portworx:
		return "pxd.portworx.com"
	}
	return ""
}

// checkPodCertificate checks a node's request for a certificate: the pod runs on the node and has the service account,
// and either the pod has a volume for the signer or the node may request it. As in admitPodCertificateRequest of
// Kubernetes, a reference to an object that does not exist, or no longer exists, is not Forbidden, so that the kubelet
// retries.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPodCertificateRequest
//upstream:plugin/pkg/admission/noderestriction.Plugin.validateNodePodCertificateSigner
func (n nodeRestriction) checkPodCertificate(ctx context.Context, a admission.Attributes, node string) error {
	request, ok := a.GetObject().(*certificatesv1.PodCertificateRequest)
	switch {
	case a.GetOperation() != admission.Create:
		return fmt.Errorf("unexpected operation %v", a.GetOperation())
	case a.GetSubresource() != "":
		return fmt.Errorf("unexpected subresource %v", a.GetSubresource())
	case !ok:
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	spec := &request.Spec
	if string(spec.NodeName) != node {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", spec.NodeName, node)
	}
	self, err := n.nodes.Get(ctx, "", node)
	if err != nil {
		return fmt.Errorf("while retrieving node %q named in the PodCertificateRequest: %w", node, err)
	}
	name := a.GetNamespace() + "/" + spec.PodName
	if self.UID != spec.NodeUID {
		return passingError{fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", name, spec.NodeUID, self.UID)}
	}
	pod, err := n.pods.Get(ctx, a.GetNamespace(), spec.PodName)
	switch {
	case err != nil:
		return fmt.Errorf("while retrieving pod %q named in the PodCertificateRequest: %w", name, err)
	case spec.PodUID != pod.UID:
		return passingError{fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", name, spec.PodUID, pod.UID)}
	case pod.Spec.NodeName != node:
		return fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", name, node)
	case mirrors(pod):
		return fmt.Errorf("pod %q is a mirror pod", name)
	case spec.ServiceAccountName != pod.Spec.ServiceAccountName:
		return fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", name, spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := n.accounts.Get(ctx, a.GetNamespace(), spec.ServiceAccountName)
	if err != nil {
		return fmt.Errorf("while retrieving service account %q named in the PodCertificateRequest: %w", a.GetNamespace()+"/"+spec.ServiceAccountName, err)
	}
	if spec.ServiceAccountUID != account.UID {
		return passingError{fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", name, spec.ServiceAccountUID, account.UID)}
	}
	if mountsCertificateOf(pod, spec.SignerName) {
		return nil
	}
	// In RBAC, a slash in a resource separates the subresource.
	signer := strings.ReplaceAll(spec.SignerName, "/", ":")
	allowed, err := n.mayRequest(ctx, a, "request-serviceaccounts-podcertificate-signer", signer, spec.ServiceAccountName)
	if allowed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %v", a.GetUserInfo().GetName(), spec.SignerName, err)
	}
	return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q", name, spec.SignerName)
}

// mountsCertificateOf reports whether a pod has a projected volume with a certificate of a signer.
//
//upstream:plugin/pkg/admission/noderestriction.podHasPodCertificateVolumeForSigner
func mountsCertificateOf(pod *corev1.Pod, signer string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil && s.PodCertificate.SignerName == signer
		})
	})
}

// checkSigningRequest checks that a node requests certificates only for itself.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitCSR
func checkSigningRequest(a admission.Attributes, node string) error {
	request, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if a.GetOperation() != admission.Create || !ok || request.Spec.SignerName != certificatesv1.KubeletServingSignerName &&
		request.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if parsed.Subject.CommonName != nodeUserPrefix+node {
		return fmt.Errorf("can only create a node CSR with CN=%s%s", nodeUserPrefix, node)
	}
	return nil
}
