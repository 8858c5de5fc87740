package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"flyball.dev/bench/jobs"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/world"
)

var update = flag.Bool("update", false, "record what Flyball costs now in testdata/costs.json")

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	if jobs.HasErrand() {
		if err := jobs.RunErrand(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const costs = "testdata/costs.json"

// TestCosts does every job with a few objects and holds what Flyball allocates
// against what was recorded. It does not look at time.
func TestCosts(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, err := world.StartServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	measured := map[string]float64{}
	for _, job := range jobs.All(jobs.Options{N: 100, Budget: time.Millisecond, Server: server}) {
		t.Run(job.Name, func(t *testing.T) {
			result, err := measure.Run(t.Context(), job, 2, func(_ measure.Turn, run func() error) error { return run() })
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range result.Figures {
				if f.Unit.Judged() {
					measured[job.Name+" "+f.Name] = min(f.Values[0][0], f.Values[0][1])
				}
			}
		})
	}
	if *update {
		record(t, measured)
	}
	judge(t, measured)
}

func judge(t *testing.T, measured map[string]float64) {
	text, err := os.ReadFile(costs)
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]float64
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	for name, value := range measured {
		cost, ok := recorded[name]
		if !ok {
			t.Errorf("%s: nothing is recorded; -update does it", name)
			continue
		}
		// A few allocations are by whatever else runs.
		if most := cost*1.1 + 0.3; value > most {
			t.Errorf("%s: %.5g, but at most %.5g was to be expected", name, value, most)
		}
	}
}

func record(t *testing.T, measured map[string]float64) {
	for name, value := range measured {
		measured[name] = math.Ceil(value*10) / 10
	}
	text, err := json.MarshalIndent(measured, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(costs, append(text, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
}
