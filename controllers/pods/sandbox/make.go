package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/controllers/pods/memfs"
)

// made is a container that was made from its specification, for one run.
type made struct {
	pod    *corev1.Pod
	spec   *corev1.Container
	number int32
	env    []string
	args   []string
	fs     *memfs.FS
}

// dir returns the working directory.
func (m *made) dir() string {
	if m.spec.WorkingDir == "" {
		return "/"
	}
	return path.Clean("/" + m.spec.WorkingDir)
}

// volume is a volume of a pod.
type volume struct {
	source *corev1.Volume
	files  *memfs.Volume
	file   string    // the file that is mounted, or "" for all
	until  time.Time // when its token must be renewed, or its trust bundles read again
}

// boxReader reads for one pod.
type boxReader struct {
	inputs.Reader
	ctx context.Context
	box *sandbox
	pod *corev1.Pod
}

// File returns a file of a volume of the pod.
func (r *boxReader) File(name, file string) ([]byte, error) {
	v, err := r.box.volume(r.ctx, r.pod, name, r)
	if err != nil {
		return nil, err
	}
	f, err := r.box.disk.NewFS(nil, memfs.Mount{Path: "/volume", Volume: v.files, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	const maxFile = 1 << 20
	return readFile(f, path.Join("/volume", path.Clean("/"+file)), maxFile)
}

func (b *sandbox) reader(ctx context.Context, pod *corev1.Pod) inputs.Reader {
	return &boxReader{b.owner.o.Reader(ctx, pod), ctx, b, pod}
}

// make makes a container for a run.
//
//upstream:pkg/kubelet.Kubelet.GenerateRunContainerOptions
func (b *sandbox) make(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, number int32) (*made, error) {
	b.mu.Lock()
	c := b.containers[spec.Name]
	if c == nil {
		c = &container{}
		b.containers[spec.Name] = c
	}
	m := c.made
	b.mu.Unlock()
	if m != nil && m.number == number {
		return m, nil
	}
	r := b.reader(ctx, pod)
	m = &made{pod: pod, spec: spec, number: number}
	var err error
	if m.env, err = inputs.Environment(pod, spec, r); err != nil {
		return nil, &ConfigError{Err: err}
	}
	if m.args, err = inputs.Arguments(spec, m.env); err != nil {
		return nil, &ConfigError{Err: err}
	}
	image := b.owner.image(pod, spec)
	before, after := image.defaults(spec)
	m.args = slices.Concat(before, m.args, after)
	if b.owner.isTerminal(spec, m.args) {
		m.args = []string{"sh"} // as the images that are used with a terminal
	}
	if m.fs, err = b.fileSystem(ctx, m, &image, r); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.made != nil && c.made.number == number {
		return c.made, nil // another goroutine was faster
	}
	c.made = m
	return m, nil
}

// fileSystem returns the file system of a container.
//
//upstream:pkg/kubelet.makeMounts
func (b *sandbox) fileSystem(ctx context.Context, m *made, image *Image, r inputs.Reader) (*memfs.FS, error) {
	mounts, err := b.systemMounts(m)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	for i := range m.spec.VolumeMounts {
		vm := &m.spec.VolumeMounts[i]
		v, err := b.volume(ctx, m.pod, vm.Name, r)
		if err != nil {
			return nil, &ConfigError{Volume: vm.Name, Err: err}
		}
		sub := path.Join(v.file, vm.SubPath)
		if vm.SubPathExpr != "" {
			expanded, err := inputs.Arguments(&corev1.Container{Args: []string{vm.SubPathExpr}}, m.env)
			if err != nil {
				return nil, &ConfigError{Err: err}
			}
			if e := expanded[0]; strings.HasPrefix(e, "/") || slices.Contains(strings.Split(e, "/"), "..") || strings.Contains(e, "$(") {
				return nil, &ConfigError{Err: fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", vm.Name, m.spec.Name)}
			}
			sub = path.Join(v.file, expanded[0])
		}
		mounts[path.Clean("/"+vm.MountPath)] = memfs.Mount{
			Path: vm.MountPath, Volume: v.files, SubPath: sub, ReadOnly: vm.ReadOnly || inputs.IsProjected(v.source), Kind: kindOf(v.source),
		}
	}
	f, err := b.disk.NewFS(image.contents(m.pod), slices.Collect(maps.Values(mounts))...)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	if dir := m.dir(); dir != "/" {
		_ = mkdirAll(f, dir) // below a file, the process has no working directory
	}
	if c := m.spec.SecurityContext; c != nil && c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem {
		f.MakeReadOnly()
	}
	return f, nil
}

// systemMounts returns the mounts of the files that kubelet manages, by path.
//
//upstream:pkg/kubelet.managedHostsFileContent
func (b *sandbox) systemMounts(m *made) (map[string]memfs.Mount, error) {
	v, err := b.disk.NewVolume()
	if err != nil {
		return nil, err
	}
	const termination = "termination-log"
	hostname := inputs.Hostname(m.pod)
	files := map[string]string{"hosts": hosts(m.pod, hostname), "hostname": hostname + "\n", "resolv.conf": resolvConf(m.pod), termination: ""}
	contents := map[string]memfs.Content{}
	for name, text := range files {
		contents[name] = memfs.Content{Data: []byte(text), Mode: 0o644}
	}
	if err := v.Set(contents); err != nil {
		return nil, err
	}
	mounts := map[string]memfs.Mount{}
	for name := range files {
		at := "/etc/" + name
		if name == termination {
			if m.spec.TerminationMessagePath == "" {
				continue
			}
			at = m.spec.TerminationMessagePath
		}
		mounts[path.Clean("/"+at)] = memfs.Mount{Path: at, Volume: v, SubPath: name}
	}
	return mounts, nil
}

// nodeHosts is the file /etc/hosts of a node.
const nodeHosts = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"

// hosts returns the file /etc/hosts of a pod.
//
//upstream:pkg/kubelet.nodeHostsFileContent
//upstream:pkg/kubelet.hostsEntriesFromHostAliases
func hosts(pod *corev1.Pod, hostname string) string {
	var t strings.Builder
	ips := pod.Status.PodIPs
	if pod.Spec.HostNetwork {
		t.WriteString("# Kubernetes-managed hosts file (host network).\n" + nodeHosts)
		ips = nil
	} else {
		t.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
	}
	for _, ip := range ips {
		t.WriteString(ip.IP + "\t")
		if pod.Spec.Subdomain != "" {
			t.WriteString(hostname + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain + "\t")
		}
		t.WriteString(hostname + "\n")
	}
	if len(pod.Spec.HostAliases) > 0 {
		t.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range pod.Spec.HostAliases {
			t.WriteString(alias.IP + "\t" + strings.Join(alias.Hostnames, "\t") + "\n")
		}
	}
	return t.String()
}

// The domain of the cluster, and the address of its DNS server.
const (
	clusterDomain = "cluster.local"
	clusterDNS    = "10.96.0.10"
)

// resolvConf returns the file /etc/resolv.conf of a pod.
//
//upstream:pkg/kubelet/network/dns.Configurer.GetPodDNS
func resolvConf(pod *corev1.Pod) string {
	var servers, searches []string
	options := []string{"ndots:5"}
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone:
		options = nil
	case corev1.DNSDefault:
		servers, options = []string{"127.0.0.53"}, nil
	default:
		servers = []string{clusterDNS}
		searches = []string{pod.Namespace + ".svc." + clusterDomain, "svc." + clusterDomain, clusterDomain}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers, searches = append(servers, c.Nameservers...), append(searches, c.Searches...)
		for _, o := range c.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			options = slices.DeleteFunc(options, func(other string) bool { name, _, _ := strings.Cut(other, ":"); return name == o.Name })
			options = append(options, text)
		}
	}
	var t strings.Builder
	if len(searches) > 0 {
		t.WriteString("search " + strings.Join(searches, " ") + "\n")
	}
	for _, s := range servers {
		t.WriteString("nameserver " + s + "\n")
	}
	if len(options) > 0 {
		t.WriteString("options " + strings.Join(options, " ") + "\n")
	}
	return t.String()
}

// volume returns a volume of a pod, with its files.
func (b *sandbox) volume(ctx context.Context, pod *corev1.Pod, name string, r inputs.Reader) (*volume, error) {
	b.mu.Lock()
	v := b.volumes[name]
	b.mu.Unlock()
	if v != nil {
		return v, nil
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("volume %q not found", name) // the API server accepts no such pod
	}
	v = &volume{source: &pod.Spec.Volumes[i]}
	var err error
	if v.files, err = b.open(ctx, pod, v); err != nil {
		return nil, err
	}
	if inputs.IsProjected(v.source) {
		if err := b.fill(v, pod, r); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.volumes[name]; other != nil {
		return other, nil // another goroutine was faster
	}
	b.volumes[name] = v
	b.renewTokens()
	return v, nil
}

// open returns the files of a volume.
func (b *sandbox) open(ctx context.Context, pod *corev1.Pod, v *volume) (*memfs.Volume, error) {
	source := v.source
	switch {
	case source.PersistentVolumeClaim != nil:
		return b.claim(ctx, pod, source.PersistentVolumeClaim.ClaimName)
	case source.Ephemeral != nil:
		return b.claim(ctx, pod, pod.Name+"-"+source.Name)
	case source.HostPath != nil:
		return b.hostPath(pod, source.HostPath, v)
	case source.EmptyDir != nil:
		return b.sized(source.EmptyDir.SizeLimit)
	default:
		return b.disk.NewVolume()
	}
}

// kindOf returns the sort of the file system of a volume.
//
//upstream:pkg/volume/secret.wrappedVolumeSpec
//upstream:pkg/volume/downwardapi.wrappedVolumeSpec
//upstream:pkg/volume/projected.wrappedVolumeSpec
func kindOf(source *corev1.Volume) string {
	memory := source.EmptyDir != nil && source.EmptyDir.Medium == corev1.StorageMediumMemory
	if memory || source.Secret != nil || source.DownwardAPI != nil || source.Projected != nil {
		return "tmpfs"
	}
	return ""
}

// hostPath returns the files of a folder of the node, which its pods share. A file is a part of its folder.
func (b *sandbox) hostPath(pod *corev1.Pod, source *corev1.HostPathVolumeSource, v *volume) (*memfs.Volume, error) {
	name, host := path.Clean("/"+source.Path), "host/"+pod.Spec.NodeName
	if t := source.Type; t == nil || *t != corev1.HostPathFile && *t != corev1.HostPathFileOrCreate || name == "/" {
		return b.owner.sharedVolume(host + name)
	}
	content := memfs.Content{Mode: 0o644}
	if name == "/etc/hosts" {
		content.Data = []byte(nodeHosts)
	}
	v.file = path.Base(name)
	files, err := b.owner.sharedVolume(host + path.Dir(name))
	if err == nil {
		err = files.Create(v.file, content)
	}
	return files, err
}

// sized returns a volume with a limit of its size.
func (b *sandbox) sized(limit *resource.Quantity) (*memfs.Volume, error) {
	if limit == nil || limit.IsZero() {
		return b.disk.NewVolume()
	}
	return memfs.NewDisk(limit.Value(), b.disk).NewVolume()
}

func claimKey[T ~string](uid T) string { return "claim/" + string(uid) }

// claim returns the files of a claim, which all pods share.
func (b *sandbox) claim(ctx context.Context, pod *corev1.Pod, name string) (*memfs.Volume, error) {
	uid, err := b.owner.o.Claim(ctx, pod.Namespace, name)
	if err != nil {
		return nil, err
	}
	return b.owner.sharedVolume(claimKey(uid))
}

// sharedVolume returns a volume that pods share.
func (s *Sandboxes) sharedVolume(key string) (*memfs.Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.shared[key]
	if v == nil {
		var err error
		if v, err = memfs.NewDisk(maxPodDisk, s.disk).NewVolume(); err != nil {
			return nil, err
		}
		s.shared[key] = v
	}
	return v, nil
}

// bundleInterval is how often the trust bundles of a volume are read.
//
//upstream:pkg/kubelet/apis/config/v1beta1.SetDefaults_KubeletConfiguration
const bundleInterval = time.Minute

// fill writes the files of a volume from the API.
func (b *sandbox) fill(v *volume, pod *corev1.Pod, r inputs.Reader) error {
	files, err := inputs.Files(pod, v.source, r)
	if err != nil {
		return err
	}
	if err := v.files.Set(files); err != nil {
		return err
	}
	until := time.Time{}
	if seconds, ok := inputs.HasToken(v.source); ok {
		until = time.Now().Add(time.Duration(seconds) * time.Second * 8 / 10)
	}
	if next := time.Now().Add(bundleInterval); inputs.HasTrustBundles(v.source) && (until.IsZero() || next.Before(until)) {
		until = next
	}
	if !until.IsZero() {
		b.mu.Lock()
		v.until = until
		b.mu.Unlock()
	}
	return nil
}

// update updates the files of the volumes from the API.
func (b *sandbox) update(ctx context.Context, pod *corev1.Pod, changedInputs bool) error {
	b.mu.Lock()
	old := b.pod
	b.pod = pod
	changed := changedInputs || !maps.Equal(old.Labels, pod.Labels) || !maps.Equal(old.Annotations, pod.Annotations)
	var all []*volume
	for _, v := range b.volumes {
		if changed && inputs.IsProjected(v.source) || !v.until.IsZero() && !v.until.After(time.Now()) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	r := b.reader(ctx, pod)
	var errs []error
	for _, v := range all {
		errs = append(errs, b.fill(v, pod, r))
	}
	if len(all) > 0 {
		b.mu.Lock()
		b.renewTokens()
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}

// renewTokens sets the timer for the next renewal of a token or the next read of trust bundles, which the reconcile of the pod makes. The caller has the
// lock.
//
//upstream:pkg/kubelet/token.Manager.requiresRefresh
func (b *sandbox) renewTokens() {
	var next time.Time
	for _, v := range b.volumes {
		if !v.until.IsZero() && (next.IsZero() || v.until.Before(next)) {
			next = v.until
		}
	}
	if next.IsZero() || b.closed {
		return
	}
	if b.renewal != nil {
		b.renewal.Stop()
	}
	b.renewal = time.AfterFunc(max(time.Until(next), time.Second), b.changed)
}
