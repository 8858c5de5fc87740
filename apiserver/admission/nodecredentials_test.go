package admission

import (
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// kubelet is the user of the node n1.
var kubelet = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}

// TestNodeTokens: a kubelet gets tokens for the audiences that volumes of its pod have, and for those
// that a role permits.
func TestNodeTokens(t *testing.T) {
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}
	claimed := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	template := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	volume := func(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	}
	driver := func(name string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "csi"}}}}
	}
	stored := []runtime.Object{
		claim("data", "ours"), claim("pod-scratch", "ours"), claim("old", "disk"), claim("plain", "path"), claim("unbound", "none"),
		volume("ours", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com"}}),
		volume("disk", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
		volume("path", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}),
		driver("csi.example.com"), driver("ebs.csi.aws.com"), driver("pd.csi.storage.gke.io"),
	}
	const refused = `system:node:n1 is not authorized to request tokens for audience "csi"`
	for name, tc := range map[string]struct {
		source    corev1.VolumeSource
		audiences []string
		allowed   string
		want      string
	}{
		"projected":             {projected, []string{"vault"}, "", ""},
		"another audience":      {projected, []string{"other"}, "", `system:node:n1 is not authorized to request tokens for audience "other"`},
		"the API server's":      {projected, nil, "", `system:node:n1 is not authorized to request tokens for audience ""`},
		"two":                   {projected, []string{"vault", "vault"}, "", "node may only request 0 or 1 audiences"},
		"permitted":             {projected, []string{"other"}, "request-serviceaccounts-token-audience other", ""},
		"another permitted":     {projected, []string{"other"}, "request-serviceaccounts-token-audience vault", `for audience "other"`},
		"of the driver":         {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example.com"}}, []string{"csi"}, "", ""},
		"of no driver":          {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "absent"}}, []string{"csi"}, "", `error validating audience "csi":`},
		"of a claim's driver":   {claimed("data"), []string{"csi"}, "", ""},
		"of a template's":       {template, []string{"csi"}, "", ""},
		"not of the driver":     {claimed("data"), []string{"other"}, "", `for audience "other"`},
		"of a migrated driver":  {claimed("old"), []string{"csi"}, "", ""},
		"of a migrated inline":  {corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}, []string{"csi"}, "", ""},
		"of a path":             {claimed("plain"), []string{"csi"}, "", refused},
		"of no volume":          {claimed("unbound"), []string{"csi"}, "", `error validating audience "csi":`},
		"of no claim":           {claimed("absent"), []string{"csi"}, "", `error validating audience "csi":`},
		"without such a volume": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, []string{"csi"}, "", refused},
	} {
		pod := podWith(func(p *corev1.Pod) {
			p.Name, p.UID, p.Spec.NodeName = "pod", "p1", "n1"
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: tc.source}}
		})
		plugin := newNodeRestriction(environmentOf(append([]runtime.Object{pod}, stored...), tc.allowed))
		expect(t, name, admit(t, plugin, write{user: kubelet, resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), sub: "token",
			obj: &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: tc.audiences,
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "p1"}}}}), tc.want)
	}
}

// TestNodePodCertificates: a kubelet requests certificates for its own pods and their signers.
func TestNodePodCertificates(t *testing.T) {
	certified := func(p *corev1.Pod) {
		p.Name, p.UID, p.Spec.NodeName, p.Spec.ServiceAccountName = "pod", "p1", "n1", "account"
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer"}}}}}}}
	}
	stored := []runtime.Object{
		podWith(certified),
		podWith(func(p *corev1.Pod) { certified(p); p.Name, p.Spec.NodeName = "elsewhere", "n2" }),
		podWith(func(p *corev1.Pod) {
			certified(p)
			p.Name, p.Annotations = "mirror", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}),
		podWith(func(p *corev1.Pod) { certified(p); p.Name, p.Spec.ServiceAccountName = "unserved", "absent" }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "account", UID: "a1"}},
	}
	type spec = certificatesv1.PodCertificateRequestSpec
	for name, tc := range map[string]struct {
		change    func(*spec)
		operation admission.Operation
		sub       string
		allowed   string
		want      string
		passing   bool // it may be allowed later, so the answer is not 403 Forbidden
	}{
		"its pod":            {},
		"an update":          {operation: admission.Update, want: "unexpected operation UPDATE"},
		"the status":         {sub: "status", want: "unexpected subresource status"},
		"another node":       {change: func(s *spec) { s.NodeName = "n2" }, want: `PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`},
		"another node's UID": {change: func(s *spec) { s.NodeUID = "x" }, want: `names node UID "x", inconsistent with the running node ("u1")`, passing: true},
		"no pod":             {change: func(s *spec) { s.PodName = "absent" }, want: `while retrieving pod "default/absent" named in the PodCertificateRequest`, passing: true},
		"another pod's UID":  {change: func(s *spec) { s.PodUID = "x" }, want: `contains pod UID ("x") which differs from running pod "p1"`, passing: true},
		"elsewhere":          {change: func(s *spec) { s.PodName = "elsewhere" }, want: `pod "default/elsewhere" is not running on node "n1" named in the PodCertificateRequest`},
		"a mirror":           {change: func(s *spec) { s.PodName = "mirror" }, want: `pod "default/mirror" is a mirror pod`},
		"another account":    {change: func(s *spec) { s.ServiceAccountName = "other" }, want: `contains serviceAccountName ("other") that differs from running pod ("account")`},
		"no account":         {change: func(s *spec) { s.PodName, s.ServiceAccountName = "unserved", "absent" }, want: `while retrieving service account "default/absent" named in the PodCertificateRequest`, passing: true},
		"an account's UID":   {change: func(s *spec) { s.ServiceAccountUID = "x" }, want: `names service account UID "x", which differs from the running service account ("a1")`, passing: true},
		"another signer":     {change: func(s *spec) { s.SignerName = "example.com/x" }, want: `pod "default/pod" does not mount a podCertificate projected volume for signer "example.com/x"`},
		"a permitted signer": {change: func(s *spec) { s.SignerName = "example.com/x" }, allowed: "request-serviceaccounts-podcertificate-signer example.com:x"},
	} {
		request := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: spec{SignerName: "example.com/signer",
			PodName: "pod", PodUID: "p1", ServiceAccountName: "account", ServiceAccountUID: "a1", NodeName: "n1", NodeUID: "u1"}}
		if tc.change != nil {
			tc.change(&request.Spec)
		}
		plugin := newNodeRestriction(environmentOf(stored, tc.allowed))
		err := admit(t, plugin, write{user: kubelet, operation: tc.operation, sub: tc.sub, obj: request, old: request,
			resource: certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")})
		expect(t, name, err, tc.want)
		if err != nil && (responsewriters.ErrorToAPIStatus(err).Code == http.StatusInternalServerError) != tc.passing {
			t.Errorf("%s: %#v", name, err)
		}
	}
}
