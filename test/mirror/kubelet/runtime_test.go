package kubelet

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"

	"flyball.dev/internal/kubelettest"
)

// containerRuntime is a container runtime without containers: a container ends when its command says so. The embedded interface is nil,
// for the methods that the kubelet does not call here.
type containerRuntime struct {
	internalapi.RuntimeService

	mu         sync.Mutex
	created    int // sandboxes and containers
	sandboxes  map[string]*sandbox
	containers map[string]*container
	runs       map[string]int // by pod and container, the number of its starts
}

// sandbox is the sandbox of a pod.
type sandbox struct {
	cri.PodSandbox
	ip string
}

// container is a container.
type container struct {
	cri.ContainerStatus
	sandbox string
	program kubelettest.Program
	server  *http.Server
	ended   chan struct{}
}

func newContainerRuntime() *containerRuntime {
	return &containerRuntime{sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, runs: map[string]int{}}
}

func (r *containerRuntime) Version(context.Context, string) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "2.0.0", RuntimeApiVersion: "v1"}, nil
}

func (r *containerRuntime) Status(context.Context, bool) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
	}}}, nil
}

func (r *containerRuntime) UpdateRuntimeConfig(context.Context, *cri.RuntimeConfig) error { return nil }

// id returns a new ID. The caller holds the lock.
func (r *containerRuntime) id(of string) string {
	r.created++
	return fmt.Sprintf("%s-%d", of, r.created)
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "%s: not found", id) }

// RunPodSandbox makes a sandbox. Its address is one of the loopback interface, so that the kubelet can probe a server.
func (r *containerRuntime) RunPodSandbox(_ context.Context, config *cri.PodSandboxConfig, _ string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.id("sandbox")
	r.sandboxes[id] = &sandbox{ip: fmt.Sprintf("127.1.%d.%d", r.created/250, r.created%250+1), PodSandbox: cri.PodSandbox{
		Id: id, Metadata: config.Metadata, State: cri.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Labels: config.Labels, Annotations: config.Annotations,
	}}
	return id, nil
}

func (r *containerRuntime) StopPodSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	var running []string
	if s := r.sandboxes[id]; s != nil {
		s.State = cri.PodSandboxState_SANDBOX_NOTREADY
	}
	for _, c := range r.containers {
		if c.sandbox == id {
			running = append(running, c.Id)
		}
	}
	r.mu.Unlock()
	for _, c := range running {
		if err := r.StopContainer(ctx, c, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *containerRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, id)
	maps.DeleteFunc(r.containers, func(_ string, c *container) bool { return c.sandbox == id })
	return nil
}

func (r *containerRuntime) PodSandboxStatus(_ context.Context, id string, _ bool) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil, notFound(id)
	}
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
		Network: &cri.PodSandboxNetworkStatus{Ip: s.ip},
		Linux:   &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: &cri.NamespaceOption{}}},
	}}, nil
}

func (r *containerRuntime) ListPodSandbox(_ context.Context, f *cri.PodSandboxFilter) (list []*cri.PodSandbox, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.Id != s.Id || f.GetState() != nil && f.State.State != s.State || !contains(s.Labels, f.GetLabelSelector()) {
			continue
		}
		list = append(list, &cri.PodSandbox{Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations})
	}
	return list, nil
}

// contains reports whether labels have all of a selector.
func contains(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (r *containerRuntime) CreateContainer(_ context.Context, sandboxID string, config *cri.ContainerConfig, _ *cri.PodSandboxConfig) (string, error) {
	program, err := kubelettest.ParseProgram(config.Command)
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.id("container")
	c := &container{sandbox: sandboxID, program: program, ended: make(chan struct{})}
	c.Id, c.Metadata, c.Labels, c.Annotations = id, config.Metadata, config.Labels, config.Annotations
	c.State, c.CreatedAt = cri.ContainerState_CONTAINER_CREATED, time.Now().UnixNano()
	c.Image, c.ImageRef, c.ImageId = &cri.ImageSpec{Image: config.Image.UserSpecifiedImage}, config.Image.Image, config.Image.Image
	c.Mounts = config.Mounts
	r.containers[id] = c
	return id, nil
}

func (r *containerRuntime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return notFound(id)
	}
	c.State, c.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	if c.program.Serve != nil {
		if err := c.serve(r.sandboxes[c.sandbox].ip); err != nil {
			return status.Error(codes.Unknown, err.Error())
		}
	}
	key := r.sandboxes[c.sandbox].Metadata.Uid + "/" + c.Metadata.Name
	number := r.runs[key]
	r.runs[key]++
	if e := c.program.Run(number); !e.Never {
		time.AfterFunc(e.After, func() { r.end(c, e) })
	}
	return nil
}

// serve serves HTTP until the end of the container.
func (c *container) serve(ip string) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, kubelettest.Port))
	if err != nil {
		return err
	}
	start, from := time.Now(), *c.program.Serve
	c.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(start) < from {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = c.server.Serve(listener) }()
	return nil
}

// end ends a container. Its reason is containerd's.
func (r *containerRuntime) end(c *container, e kubelettest.End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.State == cri.ContainerState_CONTAINER_EXITED {
		return
	}
	c.State, c.FinishedAt, c.ExitCode, c.Reason = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), int32(e.Code), e.Reason
	switch {
	case e.Reason != "":
	case e.Code == 0:
		c.Reason = "Completed"
	default:
		c.Reason = "Error"
	}
	if c.server != nil {
		_ = c.server.Close()
	}
	close(c.ended)
}

// StopContainer sends SIGTERM, and kills the container after the timeout. Without a timeout it kills at once.
func (r *containerRuntime) StopContainer(_ context.Context, id string, timeout int64) error {
	r.mu.Lock()
	c := r.containers[id]
	var state cri.ContainerState
	if c != nil {
		state = c.State
	}
	r.mu.Unlock()
	if c == nil || state == cri.ContainerState_CONTAINER_EXITED {
		return nil
	}
	e, limit := c.program.Stop, time.Duration(timeout)*time.Second
	if e.Never || e.After > limit || limit <= 0 || state != cri.ContainerState_CONTAINER_RUNNING {
		e = kubelettest.End{After: limit, Code: kubelettest.Killed}
	}
	timer := time.AfterFunc(e.After, func() { r.end(c, e) })
	defer timer.Stop()
	<-c.ended
	return nil
}

func (r *containerRuntime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.StopContainer(ctx, id, 0); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, id)
	return nil
}

func (r *containerRuntime) ListContainers(_ context.Context, f *cri.ContainerFilter) (list []*cri.Container, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if f.GetId() != "" && f.Id != c.Id || f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox ||
			f.GetState() != nil && f.State.State != c.State || !contains(c.Labels, f.GetLabelSelector()) {
			continue
		}
		list = append(list, &cri.Container{Id: c.Id, PodSandboxId: c.sandbox, Metadata: c.Metadata, Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId,
			State: c.State, CreatedAt: c.CreatedAt, Labels: c.Labels, Annotations: c.Annotations})
	}
	return list, nil
}

func (r *containerRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*cri.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, notFound(id)
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId, Labels: c.Labels,
		Annotations: c.Annotations, Mounts: c.Mounts,
	}}, nil
}

// ExecSync executes the command of a probe or a hook. Its errors are the errors of kubelet's client of a runtime.
func (r *containerRuntime) ExecSync(ctx context.Context, id string, cmd []string, _ time.Duration) (stdout, stderr []byte, err error) {
	r.mu.Lock()
	c := r.containers[id]
	running, age := false, time.Duration(0)
	if c != nil {
		running, age = c.State == cri.ContainerState_CONTAINER_RUNNING, time.Since(time.Unix(0, c.StartedAt))
	}
	r.mu.Unlock()
	if !running {
		return nil, nil, status.Errorf(codes.Unknown, "failed to exec in container: container is not running")
	}
	code, output := 0, ""
	if cmd[0] == "hook" {
		var e kubelettest.End
		if e, err = kubelettest.Hook(cmd); err == nil {
			select {
			case <-time.After(e.After):
				code = e.Code
			case <-c.ended:
				code = kubelettest.Killed
			}
		}
	} else if code, err = kubelettest.Probe(cmd, age); code != 0 {
		output = kubelettest.ProbeOutput
	}
	if err == nil && code != 0 {
		err = utilexec.CodeExitError{Code: code, Err: fmt.Errorf("command '%s' exited with %d: ", strings.Join(cmd, " "), code)}
	}
	return []byte(output), nil, err
}

func (r *containerRuntime) ListContainerStats(context.Context, *cri.ContainerStatsFilter) ([]*cri.ContainerStats, error) {
	return nil, nil
}

func (r *containerRuntime) ListPodSandboxStats(context.Context, *cri.PodSandboxStatsFilter) ([]*cri.PodSandboxStats, error) {
	return nil, nil
}

func (r *containerRuntime) UpdateContainerResources(context.Context, string, *cri.ContainerResources) error {
	return nil
}

func (r *containerRuntime) ReopenContainerLog(context.Context, string) error { return nil }

func (r *containerRuntime) Close(context.Context) error { return nil }

// images is the image service of a node.
type images struct {
	mu     sync.Mutex
	pulled map[string]bool
	failed map[string]int
}

func newImages() *images {
	return &images{pulled: map[string]bool{kubelettest.Present: true}, failed: map[string]int{}}
}

// idPrefix begins the ID of an image.
const idPrefix = "sha256:"

func image(name string) *cri.Image {
	return &cri.Image{Id: idPrefix + name, RepoTags: []string{name}, Size: 1, Spec: &cri.ImageSpec{Image: name}}
}

func (i *images) ListImages(context.Context, *cri.ImageFilter) (list []*cri.Image, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range i.pulled {
		list = append(list, image(name))
	}
	return list, nil
}

func (i *images) ImageStatus(_ context.Context, spec *cri.ImageSpec, _ bool) (*cri.ImageStatusResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	name := strings.TrimPrefix(spec.Image, idPrefix)
	if !i.pulled[name] {
		return &cri.ImageStatusResponse{}, nil
	}
	return &cri.ImageStatusResponse{Image: image(name)}, nil
}

func (i *images) PullImage(_ context.Context, spec *cri.ImageSpec, _ *cri.AuthConfig, _ *cri.PodSandboxConfig) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := kubelettest.PullFailures(spec.Image); n < 0 || i.failed[spec.Image] < n {
		i.failed[spec.Image]++
		return "", status.Error(codes.NotFound, kubelettest.PullError(spec.Image))
	}
	i.pulled[spec.Image] = true
	return idPrefix + spec.Image, nil
}

func (i *images) RemoveImage(context.Context, *cri.ImageSpec) error { return nil }

func (i *images) ImageFsInfo(context.Context) (*cri.ImageFsInfoResponse, error) {
	return &cri.ImageFsInfoResponse{}, nil
}

func (i *images) Close(context.Context) error { return nil }
