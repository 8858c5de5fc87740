package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/controllers/pods/memfs"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/internal/orphans"
)

// listenVariable is the variable by which the test program is a server, which says hello.
const listenVariable = "FLYBALL_TEST_LISTEN"

func TestMain(m *testing.M) {
	hostprocess.Main()
	if address := os.Getenv(listenVariable); address != "" {
		serve(address)
	}
	goleak.VerifyTestMain(m)
}

// serve prints its port, and says hello to each client.
func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.WriteString(c, "hello")
		c.Close()
	}
}

// world is a runner with an image "test" of a program, and pods of it.
type world struct {
	t        *testing.T
	handlers runtime.Handlers
	runner   *Runner
	disk     *memfs.Disk
	warnings []string
	exists   map[types.UID]bool
}

func newWorld(t *testing.T, command ...string) *world {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	path, _, err := hostprocess.Find(command[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, disk: memfs.NewDisk(1<<20, nil), exists: map[types.UID]bool{}}
	content := clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1"}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c"}
	w.runner, err = NewRunner(&w.handlers, Options{
		Images: []Image{{"test:v1", command, path}}, Server: inpod.Server{Host: "127.0.0.1", Port: "1"}, Kubeconfig: content,
		PodExists: func(_ context.Context, _, _ string, uid types.UID) (bool, error) { return w.exists[uid], nil },
		Warn:      func(text string) { w.warnings = append(w.warnings, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.runner.Close()
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	})
	return w
}

// running is a container of a world that runs.
type running struct {
	code      chan int
	terminate context.CancelFunc
	kill      func()
	mu        sync.Mutex
	output    bytes.Buffer
	more      chan struct{}
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.more)
	r.more = make(chan struct{})
	return r.output.Write(p)
}

// expect waits until the output contains a text.
func (r *running) expect(t *testing.T, text string) string {
	t.Helper()
	for {
		r.mu.Lock()
		got, more := r.output.String(), r.more
		r.mu.Unlock()
		if strings.Contains(got, text) {
			return got
		}
		select {
		case <-more:
		case code := <-r.code:
			t.Fatalf("the program exits with %d before it prints %q: %s", code, text, got)
		}
	}
}

// run starts a container of a pod, and returns when it executes.
func (w *world) run(pod *corev1.Pod, c *corev1.Container, env []string, fs runtime.FS) *running {
	w.t.Helper()
	killed := make(chan struct{})
	r := &running{code: make(chan int, 1), kill: sync.OnceFunc(func() { close(killed) }), more: make(chan struct{})}
	p := &runtime.Process{Pod: pod, Container: c, Args: append(append([]string{}, c.Command...), c.Args...), Env: env, FS: fs,
		Streams: runtime.Streams{Stdout: r, Stderr: r}, Killed: killed}
	handler := w.handlers.Find(p, nil)
	if handler == nil {
		w.t.Fatal("the image has no handler")
	}
	var ctx context.Context
	ctx, r.terminate = context.WithCancel(context.Background())
	go func() { r.code <- handler(ctx, p) }()
	w.t.Cleanup(r.terminate)
	return r
}

func newPod(uid string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p" + uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{ServiceAccountName: "operator", Volumes: volumes}}
}

// TestContainer: the program has the arguments, the environment and the volumes of its container, and its exit code and
// output are the container's.
func TestContainer(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	config, err := w.disk.NewVolume()
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		t.Helper()
		if err := config.Set(map[string]memfs.Content{"a/key": {Data: []byte(value), Mode: 0o644}, "gone-" + value: {Mode: 0o400}}); err != nil {
			t.Fatal(err)
		}
	}
	set("one")
	fs, err := w.disk.NewFS(nil, memfs.Mount{Path: "/flyball-test/config", Volume: config}, memfs.Mount{Path: inpod.Directory, Volume: config})
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod("1", corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}})
	c := &corev1.Container{Image: "test:v1", Command: []string{"/manager"}, Args: []string{
		`echo $A $KUBERNETES_SERVICE_HOST; cat /flyball-test/config/a/key; echo; cat ` + inpod.Directory + `/a/key; ls /flyball-test/config; echo err >&2
		trap 'cat /flyball-test/config/a/key; ls /flyball-test/config; exit 7' TERM; echo ready; while :; do sleep 0.01; done`},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/flyball-test/config/"}, {Name: "config", MountPath: inpod.Directory}}}
	r := w.run(pod, c, []string{"A=b", "KUBERNETES_SERVICE_HOST=10.96.0.1"}, fs)
	if got := r.expect(t, "ready\n"); got != "b 127.0.0.1\none\nonea\ngone-one\nerr\nready\n" {
		t.Errorf("the program printed\n%s", got)
	}
	set("two")
	w.runner.refresh(t.Context())
	r.terminate()
	// Before, the shell may say that its child was terminated.
	if got := r.expect(t, "gone-two\n"); !strings.HasSuffix(got, "\ntwoa\ngone-two\n") {
		t.Errorf("after SIGTERM, the program printed\n%s", got)
	}
	if code := <-r.code; code != 7 {
		t.Errorf("the exit code is %d", code)
	}
	if len(w.warnings) > 0 {
		t.Errorf("warnings: %q", w.warnings)
	}

	w.exists["1"] = true
	w.runner.refresh(t.Context())
	if _, err := os.Stat(w.runner.podDir("1")); err != nil {
		t.Errorf("the pod exists, and its files do not: %v", err)
	}
	delete(w.exists, "1")
	w.runner.refresh(t.Context())
	if _, err := os.Stat(w.runner.podDir("1")); err == nil || w.handlers.Serves(pod, 80) {
		t.Error("the pod is gone, and its files are not")
	}
}

// TestContainersShareVolumes: what a container writes into a volume, its next run and the other containers of the pod see,
// and other pods do not.
func TestContainersShareVolumes(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	for pod, want := range map[string]string{"1": "ab", "2": "ab"} {
		volume, err := w.disk.NewVolume()
		if err != nil {
			t.Fatal(err)
		}
		fs, err := w.disk.NewFS(nil, memfs.Mount{Path: "/flyball-test", Volume: volume})
		if err != nil {
			t.Fatal(err)
		}
		p := newPod(pod, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		for _, text := range []string{"a", "b"} {
			r := w.run(p, &corev1.Container{Image: "test:v1", Args: []string{"printf " + text + " >>/flyball-test/file; cat /flyball-test/file"},
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/flyball-test"}}}, nil, fs)
			if code := <-r.code; code != 0 || r.output.String() != want[:strings.Index(want, text)+1] {
				t.Errorf("pod %s, %s: exit code %d: %s", pod, text, code, &r.output)
			}
		}
	}
}

// TestContainersThatDoNotStart: the reason is in the log and in the termination message, and the exit code is 128.
func TestContainersThatDoNotStart(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	for want, c := range map[string]*corev1.Container{
		"sets the variable LD_PRELOAD":                      {Env: []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/tmp/x.so"}}},
		"the volume v: it cannot be mounted at /etc/passwd": {VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/tmp/../etc/passwd"}}},
	} {
		fs, err := w.disk.NewFS(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Image, c.Args, c.TerminationMessagePath = "test:v1", []string{"echo no"}, "/dev/termination-log"
		r := w.run(newPod("1"), c, nil, fs)
		if code := <-r.code; code != notStarted || !strings.Contains(r.output.String(), "flyball: ") || !strings.Contains(r.output.String(), want) {
			t.Errorf("exit code %d: %s", code, &r.output)
		}
		f, err := fs.OpenFile("/dev/termination-log", os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the termination message is %q, %v", text, err)
		}
	}
}

// TestKill: a program that ignores SIGTERM is killed with what it has started.
func TestKill(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	c := &corev1.Container{Image: "test:v1", Args: []string{`trap '' TERM; sleep 1000 & echo "<$!>"; wait`}}
	r := w.run(newPod("1"), c, nil, nil)
	out := r.expect(t, ">")
	r.terminate()
	r.kill()
	if code := <-r.code; code != 137 {
		t.Errorf("the exit code is %d", code)
	}
	if pid := between(out, "<", ">"); !ends(pid) {
		t.Errorf("process %s still runs", pid)
	}
}

// TestMark: a program of a test's image, and what the program starts, have the mark by which they end with the test.
func TestMark(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	r := w.run(newPod("1"), &corev1.Container{Image: "test:v1", Args: []string{`sh -c 'echo "<$` + orphans.Variable + `>"'`}}, nil, nil)
	if mark := between(r.expect(t, ">"), "<", ">"); mark == "" || mark != os.Getenv(orphans.Variable) {
		t.Errorf("the mark is %q", mark)
	}
}

// TestClose: Close ends all programs, and none starts any more.
func TestClose(t *testing.T) {
	w := newWorld(t, "sh", "-c")
	c := &corev1.Container{Image: "test:v1", Args: []string{`trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`}}
	all := []*running{w.run(newPod("1"), c, nil, nil), w.run(newPod("2"), c, nil, nil)}
	for _, r := range all {
		r.expect(t, "ready")
	}
	w.runner.Close()
	for _, r := range all {
		if code := <-r.code; code != 3 {
			t.Errorf("the exit code is %d", code)
		}
	}
	r := w.run(newPod("1"), c, nil, nil)
	r.kill()
	if code := <-r.code; code != 137 || r.output.Len() > 0 {
		t.Errorf("after Close: exit code %d: %s", code, &r.output)
	}
}

// TestPorts: a port of a pod leads to the program of the pod that listens on it, and to no other one.
func TestPorts(t *testing.T) {
	w := newWorld(t, os.Args[0])
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for i, address := range []string{"127.0.0.1:0", ":0", "0.0.0.0:0"} {
		pod := newPod(fmt.Sprint(i))
		if w.handlers.Serves(pod, 80) {
			t.Error("a pod without a program has ports")
		}
		r := w.run(pod, &corev1.Container{Image: "test:v1"}, []string{listenVariable + "=" + address}, nil)
		var port int32
		fmt.Sscan(r.expect(t, "\n"), &port)
		conn, err := w.handlers.Dial(t.Context(), pod, port)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); string(text) != "hello" || err != nil {
			t.Errorf("%s: read %q, %v", address, text, err)
		}
		conn.Close()
		for name, port := range map[string]int32{"of another program": int32(other.Addr().(*net.TCPAddr).Port), "that nobody listens on": 1} {
			if _, err := w.handlers.Dial(t.Context(), pod, port); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a port %s: %v", name, err)
			}
		}
		if _, err := w.handlers.Dial(t.Context(), newPod("other"), port); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("another pod: %v", err)
		}
		r.terminate()
		<-r.code
	}
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// ends reports whether a process has ended, or does soon.
func ends(text string) bool {
	pid, err := strconv.Atoi(text)
	if err != nil {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	return n == 1 && err == nil
}
