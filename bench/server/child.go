package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	nodes "flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/storage/memory"
)

// childVariable is set in the environment of a child process.
const childVariable = "FLYBALL_BENCH_SERVER"

// childOptions are passed to a child process in its environment.
type childOptions struct {
	Controllers bool
	// Nodes is the number of nodes.
	Nodes int
	// DataDir is the data directory, if there is one.
	DataDir string
	// EtcdServers are the URLs of an etcd cluster, for a flyball binary.
	EtcdServers string
	// WithoutFastPath leaves all requests to the handlers of k8s.io/apiserver.
	WithoutFastPath bool
	// Fill is how many pods the storage has at the start, if it is in memory.
	Fill int
	// Profile and Heap are the files for a CPU profile and a heap profile.
	Profile, Heap string
}

func isChild() bool { return os.Getenv(childVariable) != "" }

// runChild runs a control plane until the standard input ends. It writes its kubeconfig, and then
// the sizes of the live heap and of the stacks for every line that it reads.
func runChild(ctx context.Context) error {
	var o childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o); err != nil {
		return err
	}
	options := controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: !o.Controllers, Nodes: nodes.Nodes(o.Nodes), DataDir: o.DataDir,
		WithoutFastPath: o.WithoutFastPath}
	if o.DataDir == "" {
		options.Storage = memory.New(memory.Options{CompressAfter: 10 * time.Second}) // as flyball up
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	defer plane.Stop()
	if o.Fill > 0 {
		if err := fill(ctx, plane, o.Fill); err != nil {
			return err
		}
	}
	if o.Profile != "" {
		file, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer file.Close()
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(plane.Kubeconfig()); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if o.Heap != "" {
			file, err := os.Create(o.Heap)
			if err != nil {
				return err
			}
			if err := errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close()); err != nil {
				return err
			}
		}
		if err := out.Encode(sizes{m.HeapAlloc, m.StackInuse}); err != nil {
			return err
		}
	}
	return nil
}

// sizes is the report of a child process about its memory.
type sizes struct{ Heap, Stacks uint64 }

// server is a control plane in a child process.
type server struct {
	config *rest.Config
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *json.Decoder // nil if it is a flyball binary
	dir    string
	// binary and options are the arguments of startServer.
	binary  string
	options childOptions
	// pod returns the nth of the pods that are created.
	pod func(n int) *corev1.Pod
}

// startServer starts a control plane: this program as a child, or a flyball binary. With a kubeconfig, there is a server
// already.
func startServer(ctx context.Context, binary, kubeconfigFile string, o childOptions) (*server, error) {
	dir, err := os.MkdirTemp("", "flyball-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, binary: binary, options: o, pod: newPod}
	var kubeconfig []byte
	if kubeconfigFile != "" {
		kubeconfig, err = os.ReadFile(kubeconfigFile)
	} else if binary != "" {
		kubeconfig, err = s.startBinary(ctx)
	} else {
		kubeconfig, err = s.startSelf(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.config, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.config.QPS = -1
	return s, nil
}

func (s *server) startSelf(ctx context.Context) (kubeconfig []byte, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(s.options)
	if err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, self)
	s.cmd.Env = append(os.Environ(), childVariable+"="+string(options))
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.out = json.NewDecoder(out)
	return kubeconfig, s.out.Decode(&kubeconfig)
}

func (s *server) startBinary(ctx context.Context) ([]byte, error) {
	file := filepath.Join(s.dir, "kubeconfig")
	args := []string{"up", "--kubeconfig", file, "--nodes", strconv.Itoa(s.options.Nodes)}
	if s.options.DataDir != "" {
		args = append(args, "--data-dir", s.options.DataDir)
	}
	if s.options.EtcdServers != "" {
		args = append(args, "--etcd-servers", s.options.EtcdServers)
	}
	if s.options.WithoutFastPath {
		args = append(args, "--without-fast-path")
	}
	s.cmd = exec.CommandContext(ctx, s.binary, args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s: %w", s.binary, err)
	}
	return os.ReadFile(file)
}

// stop ends the child and waits for it.
func (s *server) stop() error {
	var err error
	if s.cmd == nil {
		return os.RemoveAll(s.dir)
	}
	if s.stdin != nil {
		err = s.stdin.Close()
	} else {
		err = s.cmd.Process.Signal(os.Interrupt)
	}
	return errors.Join(err, s.cmd.Wait(), os.RemoveAll(s.dir))
}

// memory returns the sizes of the live heap and of the stacks.
func (s *server) memory() (sizes, error) {
	if s.out == nil {
		return sizes{}, errors.New("the live heap of a binary is not known")
	}
	if _, err := fmt.Fprintln(s.stdin); err != nil {
		return sizes{}, err
	}
	var m sizes
	return m, s.out.Decode(&m)
}

// heap returns the size of the live heap.
func (s *server) heap() (int64, error) {
	m, err := s.memory()
	return int64(m.Heap), err
}

// use is anonymous memory in bytes. It leaves out the pages of the program file, which belong to the page cache: how many of them
// a process maps depends on the file system.
type use int64

// use returns the present use, as Linux reports it.
func (s *server) use() (use, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes use
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no RssAnon", s.cmd.Process.Pid)
}

func (u use) String() string { return fmt.Sprintf("%.1f MiB", float64(u)/mib) }

// to returns the use in proportion to an earlier one.
func (u use) to(before use) float64 { return float64(u) / float64(before) }

// each returns the KiB that each of n objects takes above an earlier use.
func (u use) each(before use, n int) float64 { return float64(u-before) / float64(n) / kib }

// cpu returns the CPU time that the server has taken, as Linux reports it.
func (s *server) cpu() (time.Duration, error) {
	const tick = 10 * time.Millisecond
	user, err := s.stat(14)
	if err != nil {
		return 0, err
	}
	system, err := s.stat(15)
	return time.Duration(user+system) * tick, err
}

// faults returns the number of minor page faults of the server, as Linux reports it.
func (s *server) faults() (int, error) { return s.stat(10) }

// stat returns the nth number in /proc/PID/stat, as proc_pid_stat(5) counts.
func (s *server) stat(n int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	const first = 3 // after the name in parentheses
	return strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[n-first])
}

// io returns the bytes that the server has written with system calls and the bytes that it has made the disk write, as
// Linux reports them.
func (s *server) io() (written, disk int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "wchar: %d", &written)
		fmt.Sscanf(line, "write_bytes: %d", &disk)
	}
	return written, disk, err
}

// ownCPU returns the CPU time that this process has taken.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// sleep waits for a time to pass.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
