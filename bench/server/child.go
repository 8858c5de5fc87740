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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	storage "flyball.dev/storage/memory"
)

// childVariable is set in the environment of a child process.
const childVariable = "FLYBALL_BENCH_SERVER"

// childOptions are passed to a child process in its environment.
type childOptions struct {
	Controllers bool
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
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Listen: "127.0.0.1:0", WithoutControllers: !o.Controllers,
		Storage: storage.New(storage.Options{CompressAfter: 10 * time.Second}), // as flyball up
	})
	if err != nil {
		return err
	}
	defer plane.Stop()
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
		if err := out.Encode(memory{m.HeapAlloc, m.StackInuse}); err != nil {
			return err
		}
	}
	return nil
}

// memory is what a child process writes about its memory.
type memory struct{ Heap, Stacks uint64 }

// server is a control plane in a child process.
type server struct {
	config *rest.Config
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *json.Decoder // nil if it is a flyball binary
	dir    string
}

// startServer starts a control plane: this program as a child, or a flyball binary.
func startServer(ctx context.Context, binary string, o childOptions) (*server, error) {
	dir, err := os.MkdirTemp("", "flyball-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	var kubeconfig []byte
	if binary != "" {
		kubeconfig, err = s.startBinary(ctx, binary)
	} else {
		kubeconfig, err = s.startSelf(ctx, o)
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

func (s *server) startSelf(ctx context.Context, o childOptions) (kubeconfig []byte, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(o)
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

func (s *server) startBinary(ctx context.Context, binary string) ([]byte, error) {
	file := filepath.Join(s.dir, "kubeconfig")
	s.cmd = exec.CommandContext(ctx, binary, "up", "--kubeconfig", file)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	return os.ReadFile(file)
}

// stop ends the child and waits for it.
func (s *server) stop() error {
	var err error
	if s.stdin != nil {
		err = s.stdin.Close()
	} else {
		err = s.cmd.Process.Signal(os.Interrupt)
	}
	return errors.Join(err, s.cmd.Wait(), os.RemoveAll(s.dir))
}

// memory returns the sizes of the live heap and of the stacks.
func (s *server) memory() (memory, error) {
	if s.out == nil {
		return memory{}, errors.New("the live heap of a binary is not known")
	}
	if _, err := fmt.Fprintln(s.stdin); err != nil {
		return memory{}, err
	}
	var m memory
	return m, s.out.Decode(&m)
}

// heap returns the size of the live heap.
func (s *server) heap() (int64, error) {
	m, err := s.memory()
	return int64(m.Heap), err
}

// resident returns the resident memory in bytes, as Linux reports it.
func (s *server) resident() (int64, error) { return s.status("VmRSS") }

func (s *server) status(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, name+": %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", s.cmd.Process.Pid, name)
}

// cpu returns the CPU time that the server has taken, as Linux reports it.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	const tick = 10 * time.Millisecond
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, err
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
