package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
)

// start starts a manager with one object to reconcile.
func (o Options) start() measure.Benchmark {
	return measure.Benchmark{
		Name:    "process/start",
		About:   "make and start a manager until its first reconcile (HTTPS)",
		Metrics: []measure.Metric{{Name: "time", Unit: measure.Time}, {Name: "stop", Unit: measure.Time}},
		Setup:   func(ctx context.Context) (func(), error) { return o.clear, o.createOwners(ctx, 1) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			began := time.Now()
			one := newReconciled(1)
			m, err := manager(rt, o.Server.HTTPS(), runtimes.Controller{Name: "start", For: &corev1.ConfigMap{}, Workers: 1},
				func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
					one.add(key)
					return nil
				})
			if err != nil {
				return nil, err
			}
			running := begin(ctx, m.Start)
			defer running.stop()
			if err := running.wait(ctx, one.done); err != nil {
				return nil, err
			}
			started := time.Now()
			err = running.stop()
			return measure.Sample{"time": float64(started.Sub(began)), "stop": float64(time.Since(started))}, err
		}),
	}
}

// process runs a whole operator in a child process. The program is the same for both runtimes, so
// it also contains the code of the other one.
func (o Options) process() measure.Benchmark {
	return measure.Benchmark{
		Name:  "process/operator",
		About: fmt.Sprintf("a child process, from main until it has reconciled, by reading it, each of %d pods that have not run (HTTPS)", o.N),
		Metrics: []measure.Metric{
			{Name: "time", Unit: measure.Time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "peak", Unit: measure.Memory},
			{Name: "anonymous", Unit: measure.Memory},
			{Name: "heap", Unit: measure.Memory},
		},
		Setup: func(ctx context.Context) (func(), error) { return nil, o.Server.NeedPods(ctx, o.N) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return o.run(ctx, rt.Name())
		}),
	}
}

// childConfig is what a child process reads from its standard input.
type childConfig struct {
	Runtime    string
	Kubeconfig []byte
	Namespace  string
	N          int
}

// childVariable is set in the environment of a child process.
const childVariable = "FLYBALL_BENCH_CHILD"

func (o Options) run(ctx context.Context, rt string) (measure.Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(childConfig{rt, o.Server.Kubeconfig, o.Server.HTTPS().Namespace, o.N})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("child process of %s: %w", rt, err)
	}
	var sample measure.Sample
	if err := json.Unmarshal(output, &sample); err != nil {
		return nil, err
	}
	sample["cpu"] = float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	return sample, nil
}

// IsChild reports whether this process is a child process that a benchmark has started. It must
// call RunChild and exit.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// RunChild runs the operator of a child process and writes the sample to standard output.
func RunChild(ctx context.Context) error {
	began := time.Now()
	var c childConfig
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)
	if err != nil {
		return err
	}
	for _, rt := range both {
		if rt.Name() == c.Runtime {
			sample, err := operate(ctx, rt, runtimes.Server{Config: config, Scheme: fixture.Scheme, Namespace: c.Namespace}, c.N, began)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(sample)
		}
	}
	return fmt.Errorf("there is no runtime %q", c.Runtime)
}

func operate(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int, began time.Time) (measure.Sample, error) {
	all := newReconciled(n)
	get := getOne(fixture.Pods)
	m, err := manager(rt, server, runtimes.Controller{Name: "operator", For: fixture.Pods.One(), Workers: 1},
		func(ctx context.Context, m runtimes.Manager, key runtimes.Key) error {
			defer all.add(key)
			return get(ctx, m, key)
		})
	if err != nil {
		return nil, err
	}
	running := begin(ctx, m.Start)
	defer running.stop()
	if err := running.wait(ctx, all.done); err != nil {
		return nil, err
	}
	sample := measure.Sample{"time": float64(time.Since(began))}
	sample["peak"], err = status("VmHWM")
	if err != nil {
		return nil, err
	}
	sample["heap"] = measure.Heap()
	debug.FreeOSMemory()
	sample["anonymous"], err = status("RssAnon")
	return sample, errors.Join(err, running.stop())
}

// status returns a size from /proc/self/status. It is zero on systems without that file.
func status(name string) (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, name+": %f kB", &kilobytes); err == nil {
			return kilobytes * 1024, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s: %w", name, err)
}
