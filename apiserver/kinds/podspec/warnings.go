package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// deprecatedLabels are the labels of nodes that have been replaced, and what to say about them.
var deprecatedLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  "deprecated since v1.9",
	"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// unusedAnnotations are the annotations that nothing reads any more.
var unusedAnnotations = [...]struct{ key, message string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

const (
	matchesNothing  = "a null labelSelector results in matching no pod"
	useSeccompField = `non-functional in v1.27+; use the "seccompProfile" field instead`
)

// Warnings returns the warnings for a pod, or for a template at path.
//
//upstream:pkg/api/pod.GetWarningsForPodTemplate
func Warnings(meta *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) []string {
	w := &warner{path: path}
	w.scheduling(s)
	if len(meta.Annotations) > 0 {
		w.annotations(meta, s)
	}
	w.volumes(s.Volumes)
	w.names(s)
	w.fractions(s.Overhead, w.at("spec", "overhead"))
	w.containers(s)
	w.ports(s)
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.add("must be >= 0; negative values are invalid and will be treated as 1", "spec", "terminationGracePeriodSeconds")
	}
	w.addresses(s)
	return w.warnings
}

// warner collects warnings. It makes paths only for these, as most pods have none.
type warner struct {
	path     *field.Path
	warnings []string
}

// at returns a path of names, and of indexes, which are ints.
func (w *warner) at(elements ...any) *field.Path {
	path := w.path
	for _, e := range elements {
		switch e := e.(type) {
		case int:
			path = path.Index(e)
		case string:
			path = path.Child(e)
		}
	}
	return path
}

func (w *warner) add(message string, elements ...any) { w.addAt(w.at(elements...), message) }

func (w *warner) addAt(path *field.Path, message string) {
	w.warnings = append(w.warnings, path.String()+": "+message)
}

// scheduling warns of deprecated labels of nodes and of selectors that match nothing.
func (w *warner) scheduling(s *corev1.PodSpec) {
	for _, key := range fieldrules.SortedKeys(s.NodeSelector) {
		if message, ok := deprecatedLabels[key]; ok {
			w.addAt(w.at("spec", "nodeSelector").Key(key), message)
		}
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		if message, ok := deprecatedLabels[c.TopologyKey]; ok {
			w.add(c.TopologyKey+" is "+message, "spec", "topologySpreadConstraints", i, "topologyKey")
		}
		if c.LabelSelector == nil {
			w.add(matchesNothing, "spec", "topologySpreadConstraints", i, "labelSelector")
		}
	}
	if s.Affinity == nil {
		return
	}
	if a := s.Affinity.NodeAffinity; a != nil {
		w.nodeAffinity(a)
	}
	if a := s.Affinity.PodAffinity; a != nil {
		w.affinity("podAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Affinity.PodAntiAffinity; a != nil {
		w.affinity("podAntiAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// nodeAffinity warns of deprecated labels of nodes, and of invalid values in preferences, which are no errors.
func (w *warner) nodeAffinity(a *corev1.NodeAffinity) {
	if must := a.RequiredDuringSchedulingIgnoredDuringExecution; must != nil {
		for i := range must.NodeSelectorTerms {
			w.nodeTerm(&must.NodeSelectorTerms[i], false, w.at("spec", "affinity", "nodeAffinity",
				"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", i))
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		w.nodeTerm(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true, w.at("spec", "affinity",
			"nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", i, "preference"))
	}
}

func (w *warner) nodeTerm(t *corev1.NodeSelectorTerm, values bool, path *field.Path) {
	w.warnings = append(w.warnings, NodeTermWarnings(t, values, path)...)
}

// NodeTermWarnings returns the warnings for a term of a node selector, with values also for invalid values of labels.
//
//upstream:pkg/api/node.GetWarningsForNodeSelectorTerm
func NodeTermWarnings(t *corev1.NodeSelectorTerm, values bool, path *field.Path) []string {
	var warnings []string
	for i, e := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if message, ok := deprecatedLabels[e.Key]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: %s is %s", at.Child("key"), e.Key, message))
		}
		if !values {
			continue
		}
		for j, v := range e.Values {
			for _, m := range validation.IsValidLabelValue(v) {
				warnings = append(warnings, fmt.Sprintf("%s: %s is invalid, %s", at.Child("values").Index(j), v, m))
			}
		}
	}
	return warnings
}

func (w *warner) affinity(name string, must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm) {
	for i := range must {
		if must[i].LabelSelector == nil {
			w.add(matchesNothing, "spec", "affinity", name, "requiredDuringSchedulingIgnoredDuringExecution", i, "labelSelector")
		}
	}
	for i := range prefer {
		if prefer[i].PodAffinityTerm.LabelSelector == nil {
			w.add(matchesNothing, "spec", "affinity", name, "preferredDuringSchedulingIgnoredDuringExecution", i,
				"podAffinityTerm", "labelSelector")
		}
	}
}

// annotations warns of annotations that fields have replaced.
func (w *warner) annotations(meta *metav1.ObjectMeta, s *corev1.PodSpec) {
	for _, unused := range unusedAnnotations {
		if _, ok := meta.Annotations[unused.key]; ok {
			w.addAt(w.at("metadata", "annotations").Key(unused.key), unused.message)
		}
	}
	if s.SecurityContext == nil || s.SecurityContext.SeccompProfile == nil {
		if _, ok := meta.Annotations[corev1.SeccompPodAnnotationKey]; ok {
			w.addAt(w.at("metadata", "annotations").Key(corev1.SeccompPodAnnotationKey), useSeccompField)
		}
	}
	VisitContainers(s, func(name string, c **corev1.SecurityContext) {
		if *c != nil && (*c).SeccompProfile != nil {
			return
		}
		if _, ok := meta.Annotations[containerSeccomp+name]; ok {
			w.addAt(w.at("metadata", "annotations").Key(containerSeccomp+name), useSeccompField)
		}
	})
	if w.path == nil {
		return // the warnings about pods are given when their annotations become fields
	}
	var profile *corev1.AppArmorProfile
	if s.SecurityContext != nil {
		profile = s.SecurityContext.AppArmorProfile
	}
	VisitContainers(s, func(name string, c **corev1.SecurityContext) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + name
		annotation, ok := meta.Annotations[key]
		if !ok || *c != nil && (*c).AppArmorProfile != nil ||
			profile != nil && apiequality.Semantic.DeepEqual(profile, AppArmorOf(annotation)) {
			return
		}
		w.addAt(w.at("metadata", "annotations").Key(key), DeprecatedAppArmor)
	})
}

// volumes warns of sources that have been deprecated or removed.
func (w *warner) volumes(volumes []corev1.Volume) {
	for i := range volumes {
		v := &volumes[i]
		for _, source := range [...]struct {
			name, message string
			set           bool
		}{
			{"photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+", v.PhotonPersistentDisk != nil},
			{"gitRepo", "deprecated in v1.11, and disabled by default in v1.33+", v.GitRepo != nil},
			{"scaleIO", "deprecated in v1.16, non-functional in v1.22+", v.ScaleIO != nil},
			{"flocker", "deprecated in v1.22, non-functional in v1.25+", v.Flocker != nil},
			{"storageOS", "deprecated in v1.22, non-functional in v1.25+", v.StorageOS != nil},
			{"quobyte", "deprecated in v1.22, non-functional in v1.25+", v.Quobyte != nil},
			{"glusterfs", "deprecated in v1.25, non-functional in v1.26+", v.Glusterfs != nil},
			{"cephfs", "deprecated in v1.28, non-functional in v1.31+", v.CephFS != nil},
			{"rbd", "deprecated in v1.28, non-functional in v1.31+", v.RBD != nil},
		} {
			if source.set {
				w.add(source.message, "spec", "volumes", i, source.name)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.warnings = append(w.warnings, ClaimWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec,
				w.at("spec", "volumes", i, "ephemeral", "volumeClaimTemplate", "spec"))...)
		}
		w.paths(v)
	}
}

// names warns of addresses and names of secrets that are duplicate or empty.
func (w *warner) names(s *corev1.PodSpec) {
	var ips, secrets fieldrules.Seen[string]
	for i, a := range s.HostAliases {
		if !ips.Add(a.IP) {
			w.add(fmt.Sprintf("duplicate ip %q", a.IP), "spec", "hostAliases", i, "ip")
		}
	}
	for i, secret := range s.ImagePullSecrets {
		if !secrets.Add(secret.Name) {
			w.add(fmt.Sprintf("duplicate name %q", secret.Name), "spec", "imagePullSecrets", i, "name")
		}
	}
	for i, secret := range s.ImagePullSecrets {
		if secret.Name == "" {
			w.add(`invalid empty name ""`, "spec", "imagePullSecrets", i, "name")
		}
	}
}

// fractions warns of fractions of a byte.
func (w *warner) fractions(list corev1.ResourceList, path *field.Path) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.addAt(path.Key(string(name)), fmt.Sprintf("fractional byte value %q is invalid, must be an integer", q.String()))
		}
	}
}

// containers warns of fractions of a byte and of variables that hide others.
func (w *warner) containers(s *corev1.PodSpec) {
	for at, c := range each(s) {
		path := func() *field.Path { return w.in(at) }
		if len(c.Resources.Limits) > 0 {
			w.fractions(c.Resources.Limits, path().Child("resources", "limits"))
		}
		if len(c.Resources.Requests) > 0 {
			w.fractions(c.Resources.Requests, path().Child("resources", "requests"))
		}
		if len(c.Env) < 2 {
			continue
		}
		defined := make(map[string]bool, len(c.Env))
		for i := range c.Env {
			v := &c.Env[i]
			if defined[v.Name] && hides(v) {
				w.addAt(path().Child("env").Index(i),
					fmt.Sprintf("hides previous definition of %q, which may be dropped when using apply", v.Name))
			}
			defined[v.Name] = true
		}
	}
}

// in returns the path of a container in the spec.
func (w *warner) in(at place) *field.Path { return w.at("spec", at.list, at.i) }

// hides reports whether a variable replaces an earlier one without extending its value.
func hides(v *corev1.EnvVar) bool {
	reference := "$(" + v.Name + ")"
	return v.ValueFrom != nil || v.Value == reference || !strings.Contains(v.Value, reference)
}

// maxCompared is how many pairs of ports with the same number are compared. The headers of a response have room for
// far fewer warnings.
const maxCompared = 100_000

// definedPort is a port of a container, with its position in the pod.
type definedPort struct {
	place
	port int
	corev1.ContainerPort
}

// ports warns of ports that are defined more than once, in any container.
func (w *warner) ports(s *corev1.PodSpec) {
	var all []definedPort
	for at, c := range each(s) {
		for j, p := range c.Ports {
			d := definedPort{at, j, p}
			if p.HostIP != "" && p.HostPort == 0 {
				w.addAt(w.portPath(d), fmt.Sprintf("hostIP set without hostPort: %s", shownPort(p)))
			}
			all = append(all, d)
		}
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	if len(all) < 2 {
		return
	}
	compared := 0
	byNumber := make(map[number][]definedPort, len(all))
	for _, p := range all {
		n := number{p.ContainerPort.ContainerPort, p.Protocol}
		before := byNumber[n]
		byNumber[n] = append(before, p)
		for _, o := range before {
			if compared++; compared > maxCompared {
				return
			}
			kind := ""
			switch {
			case p.HostIP == o.HostIP && p.HostPort == o.HostPort:
				kind = "duplicate"
			case p.HostPort == 0 || o.HostPort == 0:
				kind = "overlapping"
			case p.HostPort == o.HostPort && (p.HostIP == "") != (o.HostIP == ""):
				kind = "dangerously ambiguous"
			default:
				continue
			}
			w.addAt(w.portPath(p), fmt.Sprintf("%s port definition with %s", kind, w.portPath(o)))
		}
	}
	byName := make(map[string]definedPort, len(all))
	for _, p := range all {
		o, repeated := byName[p.Name]
		switch {
		case p.Name == "":
		case repeated:
			w.addAt(w.portPath(p), fmt.Sprintf("duplicate port name %q with %s, services and probes that select ports "+
				"by name will use %s", p.Name, w.portPath(o), w.portPath(o)))
		default:
			byName[p.Name] = p
		}
	}
}

// shownPort formats a port as kube-apiserver does, in the order of the fields of its internal version.
func shownPort(p corev1.ContainerPort) string {
	return fmt.Sprintf("{Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}", p.Name, p.HostPort, p.ContainerPort,
		p.Protocol, p.HostIP)
}

// addresses warns of addresses that are not in the canonical format.
func (w *warner) addresses(s *corev1.PodSpec) {
	if s.DNSConfig != nil {
		for i, ip := range s.DNSConfig.Nameservers {
			w.warnings = append(w.warnings, fieldrules.IPWarnings(ip, w.at("spec", "dnsConfig", "nameservers", i))...)
		}
	}
	for i, a := range s.HostAliases {
		w.warnings = append(w.warnings, fieldrules.IPWarnings(a.IP, w.at("spec", "hostAliases", i, "ip"))...)
	}
}

func (w *warner) portPath(p definedPort) *field.Path {
	return w.in(p.place).Child("ports").Index(p.port)
}

// ClaimWarnings returns the warnings for the spec of a PersistentVolumeClaim.
//
//upstream:pkg/api/persistentvolumeclaim.GetWarningsForPersistentVolumeClaimSpec
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var warnings []string
	for _, part := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"requests", s.Resources.Requests}, {"limits", s.Resources.Limits}} {
		if q := part.resources[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", part.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return warnings
}
