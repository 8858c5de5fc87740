package inputs

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// objects is a Reader of objects by name.
type objects struct {
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	services   []corev1.Service
	file       string
	bundles    []certificatesv1.ClusterTrustBundle
}

func (o *objects) ConfigMap(name string) (*corev1.ConfigMap, error) {
	if m := o.configMaps[name]; m != nil {
		return m, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (o *objects) Secret(name string) (*corev1.Secret, error) {
	if s := o.secrets[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (o *objects) Services() ([]corev1.Service, error) { return o.services, nil }

func (o *objects) Token(p *corev1.ServiceAccountTokenProjection) ([]byte, error) {
	return []byte("token for " + p.Audience), nil
}

func (o *objects) TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error) {
	for i := range o.bundles {
		if o.bundles[i].Name == name {
			return &o.bundles[i], nil
		}
	}
	return nil, apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundles"), name)
}

func (o *objects) TrustBundles(signer string, selector labels.Selector) (found []certificatesv1.ClusterTrustBundle, err error) {
	for _, b := range o.bundles {
		if b.Spec.SignerName == signer && selector.Matches(labels.Set(b.Labels)) {
			found = append(found, b)
		}
	}
	return found, nil
}

func (o *objects) File(string, string) ([]byte, error) { return []byte(o.file), nil }

func (o *objects) Allocatable() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi")}
}

var all = &objects{
	configMaps: map[string]*corev1.ConfigMap{"c": {Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"z": {0}}}},
	secrets:    map[string]*corev1.Secret{"s": {Data: map[string][]byte{"password": []byte("secret")}}},
	services: []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1",
			Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my-db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.2",
			Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 1}}}},
	},
	file: "# comment\n\n  A='1'\nB='two\nlines' # more\nC= 'x'\n",
}

func podOf(c corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"b": "2", "a": `"1"`}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{c}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.9", HostIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}, {IP: "fd00::9"}}},
	}
}

// variable returns an environment variable with a source.
func variable(name string, from corev1.EnvVarSource) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &from}
}

func field(path string) corev1.EnvVarSource {
	return corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestEnvironment(t *testing.T) {
	optional := true
	key := func(name, key string, optional *bool) corev1.EnvVarSource {
		return corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	c := corev1.Container{
		Name: "c",
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}, Optional: &optional}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
		},
		Env: []corev1.EnvVar{
			{Name: "ONE", Value: "1"},
			{Name: "ALL", Value: "$(ONE) $(C_a) $$(ONE) $(MISSING) $(MY_DB_SERVICE_HOST) $x $("},
			{Name: "ONE", Value: "again"},
			variable("IP", field("status.podIP")),
			variable("IPS", field("status.podIPs")),
			variable("LABEL", field("metadata.labels['a']")),
			variable("LABELS", field("metadata.labels")),
			variable("KEY", key("c", "b", nil)),
			variable("NO_KEY", key("c", "none", &optional)),
			variable("NO_MAP", key("none", "b", &optional)),
			variable("FILE", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{Key: "B"}}),
			variable("CPU", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}),
			variable("MEMORY", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.memory", Divisor: resource.MustParse("1Mi")}}),
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1500Ki")}},
	}
	got, err := Environment(podOf(c), &c, all)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=" + searchPath, "HOSTNAME=p", "HOME=/root",
		"C_a=1", "C_b=2", "password=secret",
		"ONE=again", "ALL=1 1 $(ONE) $(MISSING) 10.96.0.2 $x $(",
		"IP=10.0.0.9", "IPS=10.0.0.9,fd00::9", `LABEL="1"`, "LABELS=a=\"\\\"1\\\"\"\nb=\"2\"",
		"KEY=2", "FILE=two\nlines", "CPU=8", "MEMORY=2",
		"KUBERNETES_PORT=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_PROTO=tcp", "KUBERNETES_SERVICE_HOST=10.96.0.1",
		"KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
		"MY_DB_PORT=udp://10.96.0.2:53", "MY_DB_PORT_53_UDP=udp://10.96.0.2:53", "MY_DB_PORT_53_UDP_ADDR=10.96.0.2", "MY_DB_PORT_53_UDP_PORT=53",
		"MY_DB_PORT_53_UDP_PROTO=udp", "MY_DB_SERVICE_HOST=10.96.0.2", "MY_DB_SERVICE_PORT=53",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	pod, links := podOf(corev1.Container{}), false
	pod.Spec.EnableServiceLinks, pod.Spec.Hostname = &links, "h"
	got, err = Environment(pod, &pod.Spec.Containers[0], all)
	if err != nil || !slices.Contains(got, "KUBERNETES_SERVICE_HOST=10.96.0.1") || !slices.Contains(got, "HOSTNAME=h") ||
		slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "MY_DB") }) {
		t.Errorf("without links: %q, %v", got, err)
	}
}

func TestEnvironmentErrors(t *testing.T) {
	var growing []corev1.EnvVar
	for name, before := 'B', "x"; name < 'Z'; name++ {
		growing = append(growing, corev1.EnvVar{Name: string(name), Value: strings.Repeat(before, 4)})
		before = "$(" + string(name) + ")"
	}
	for name, tt := range map[string]struct {
		env  []corev1.EnvVar
		want string
	}{
		"a missing key": {[]corev1.EnvVar{variable("A", corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "none"}})}, "couldn't find key none in Secret ns/s"},
		"a missing Secret": {[]corev1.EnvVar{variable("A", corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k"}})}, `secrets "none" not found`},
		"an unknown field":      {[]corev1.EnvVar{variable("A", field("spec.x"))}, "unsupported fieldPath: spec.x"},
		"an unknown resource":   {[]corev1.EnvVar{variable("A", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.x"}})}, "unsupported container resource : limits.x"},
		"variables that double": {growing, "argument list too long"},
	} {
		c := corev1.Container{Env: tt.env}
		if _, err := Environment(podOf(c), &c, all); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArguments(t *testing.T) {
	c := &corev1.Container{Command: []string{"a", "$(X)"}, Args: []string{"$$(X)", "$(Y)", "x$(X)$"}}
	got, err := Arguments(c, []string{"X=1=2"})
	if want := []string{"a", "1=2", "$(X)", "$(Y)", "x1=2$"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestVariablesOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		"A='x'": "x", "B='y'": "", "A='x' y": "!", "A=x": "!", "A": "!", "='x'": "!", "A ='x'": "!", "A='x": "!", "A= 'x'\nA='y'": "",
		"# A='z'\nA='x'# c": "x", "A='1\n2\n3'": "1\n2\n3", "": "",
	} {
		got, err := fileVariable(text, "A")
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestFiles(t *testing.T) {
	mode, optional := int32(0o400), true
	items := []corev1.KeyToPath{{Key: "b", Path: "sub/b", Mode: &mode}}
	for name, tt := range map[string]struct {
		source corev1.VolumeSource
		want   map[string]string
		err    string
	}{
		"a ConfigMap": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			map[string]string{"a": "-rw-r--r-- 1", "b": "-rw-r--r-- 2", "z": "-rw-r--r-- \x00"}, ""},
		"items": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: items}},
			map[string]string{"sub/b": "-r-------- 2"}, ""},
		"a missing item": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: items}}, nil, "references non-existent secret key: b"},
		"an optional item": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: items, Optional: &optional}},
			map[string]string{}, ""},
		"an optional Secret": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none", Optional: &optional}}, map[string]string{}, ""},
		"a missing Secret":   {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}, nil, `secrets "none" not found`},
		"a projection": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "x"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: RootCA}, Items: items}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "d/name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu", Divisor: resource.MustParse("1m")}},
			}}},
		}}}, map[string]string{"token": "-r-------- token for x", "password": "-r-------- secret", "d/name": "-r-------- p", "cpu": "-r-------- 8000"}, ""},
	} {
		v := &corev1.Volume{VolumeSource: tt.source}
		files, err := Files(podOf(corev1.Container{Name: "c"}), v, all)
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
		if err != nil {
			continue
		}
		got := map[string]string{}
		for path, f := range files {
			got[path] = f.Mode.String() + " " + string(f.Data)
		}
		if d := cmp.Diff(tt.want, got); d != "" || !IsProjected(v) {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if seconds, ok := HasToken(&corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(600))}}}}}}); !ok || seconds != 600 {
		t.Errorf("the token is valid for %d s, %v", seconds, ok)
	}
}

// TestTrustAnchors: bundles by name, and by signer and labels, each certificate once.
func TestTrustAnchors(t *testing.T) {
	certificate := func(names string) (text string) {
		for _, name := range strings.Split(names, "") {
			text += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(name)}))
		}
		return text
	}
	bundle := func(name, signer, certificates string, labels map[string]string) certificatesv1.ClusterTrustBundle {
		return certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "comment\n" + certificate(certificates)}}
	}
	r := &objects{bundles: []certificatesv1.ClusterTrustBundle{
		bundle("one", "", "ba", nil), bundle("s:1", "s", "cd", map[string]string{"a": "1"}), bundle("s:2", "s", "de", nil), bundle("t:1", "t", "x", nil),
	}}
	for name, tt := range map[string]struct {
		p    corev1.ClusterTrustBundleProjection
		want string
		err  string
	}{
		"by name":           {p: corev1.ClusterTrustBundleProjection{Name: ptr.To("one")}, want: "ab"},
		"missing":           {p: corev1.ClusterTrustBundleProjection{Name: ptr.To("two")}, err: `while getting ClusterTrustBundle: clustertrustbundles.certificates.k8s.io "two" not found`},
		"missing, optional": {p: corev1.ClusterTrustBundleProjection{Name: ptr.To("two"), Optional: ptr.To(true)}},
		"everything":        {p: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("s"), LabelSelector: &metav1.LabelSelector{}}, want: "cde"},
		"by labels":         {p: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("s"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"}}}, want: "cd"},
		"nothing":           {p: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("s")}, err: "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		"nothing, optional": {p: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("s"), Optional: ptr.To(true)}},
		"neither":           {err: "ClusterTrustBundle projection requires either name or signerName to be set"},
	} {
		want := ""
		if tt.want != "" {
			want = certificate(tt.want)
		}
		got, err := TrustAnchors(&tt.p, r)
		if text := ""; err != nil {
			if text = err.Error(); text != tt.err {
				t.Errorf("%s: %s", name, text)
			}
		} else if tt.err != "" || string(got) != want {
			t.Errorf("%s: %q, want %q %s", name, got, want, tt.err)
		}
	}
}
