package jobs

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

	"flyball.dev/bench/measure"
	"flyball.dev/bench/runtimes"
	"flyball.dev/bench/world"
)

// start starts a manager with one object to reconcile.
func (o Options) start() measure.Job {
	return measure.Job{
		Name:    "process/start",
		About:   "make and start a manager until its first reconcile (HTTPS)",
		Figures: []measure.Figure{{Name: "time", Unit: measure.Time}, {Name: "stop", Unit: measure.Time}},
		Setup:   func(ctx context.Context) (func(), error) { return o.clear, o.createOwners(ctx, 1) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			began := time.Now()
			one := newTally(1)
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

// process starts a whole operator in a process of its own. The program is the
// same for both runtimes, so it also holds the other one's code.
func (o Options) process() measure.Job {
	return measure.Job{
		Name:  "process/operator",
		About: fmt.Sprintf("a process of its own, from main until it has reconciled, by reading it, each of %d pods that have not run (HTTPS)", o.N),
		Figures: []measure.Figure{
			{Name: "time", Unit: measure.Time},
			{Name: "cpu", Unit: measure.Time},
			{Name: "peak", Unit: measure.Memory},
			{Name: "resident", Unit: measure.Memory},
			{Name: "heap", Unit: measure.Memory},
		},
		Setup: func(ctx context.Context) (func(), error) { return nil, o.Server.NeedPods(ctx, o.N) },
		Sides: sides(func(ctx context.Context, rt runtimes.Runtime) (measure.Sample, error) {
			return o.run(ctx, rt.Name())
		}),
	}
}

// errand is what a process is told to do.
type errand struct {
	Runtime    string
	Kubeconfig []byte
	Namespace  string
	N          int
}

// errandVariable is set in the environment of a process that has an errand.
const errandVariable = "FLYBALL_BENCH_ERRAND"

func (o Options) run(ctx context.Context, rt string) (measure.Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(errand{rt, o.Server.Kubeconfig, o.Server.HTTPS().Namespace, o.N})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), errandVariable+"=1")
	cmd.Stdin = bytes.NewReader(told)
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the process of %s: %w", rt, err)
	}
	var sample measure.Sample
	if err := json.Unmarshal(answer, &sample); err != nil {
		return nil, err
	}
	sample["cpu"] = float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	return sample, nil
}

// HasErrand tells whether this process is one that a job has started. It has
// nothing to do then but RunErrand.
func HasErrand() bool { return os.Getenv(errandVariable) != "" }

// RunErrand does what the job wants of this process.
func RunErrand(ctx context.Context) error {
	began := time.Now()
	var e errand
	if err := json.NewDecoder(os.Stdin).Decode(&e); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(e.Kubeconfig)
	if err != nil {
		return err
	}
	for _, rt := range both {
		if rt.Name() == e.Runtime {
			sample, err := operate(ctx, rt, runtimes.Server{Config: config, Scheme: world.Scheme, Namespace: e.Namespace}, e.N, began)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(sample)
		}
	}
	return fmt.Errorf("there is no runtime %q", e.Runtime)
}

func operate(ctx context.Context, rt runtimes.Runtime, server runtimes.Server, n int, began time.Time) (measure.Sample, error) {
	all := newTally(n)
	get := getOne(world.Pods)
	m, err := manager(rt, server, runtimes.Controller{Name: "operator", For: world.Pods.One(), Workers: 1},
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
	sample["resident"], err = status("VmRSS")
	return sample, errors.Join(err, running.stop())
}

// status returns a size from what Linux tells of this process. It is zero on
// other systems.
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
	return 0, fmt.Errorf("/proc/self/status does not tell %s: %w", name, err)
}
