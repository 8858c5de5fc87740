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

	"flyball.dev/bench/benchmarks"
	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
	_ "flyball.dev/internal/orphans"
)

var update = flag.Bool("update", false, "write the current costs to testdata/costs.json")

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	if benchmarks.IsChild() {
		if err := benchmarks.RunChild(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const costs = "testdata/costs.json"

// TestCosts runs every benchmark with a few objects and compares what Flyball allocates with what
// was recorded. It does not measure time.
func TestCosts(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, err := fixture.StartServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	measured := map[string]float64{}
	for _, benchmark := range benchmarks.All(benchmarks.Options{N: 100, Budget: 10 * time.Millisecond, Server: server}) {
		t.Run(benchmark.Name, func(t *testing.T) {
			result, err := measure.Run(t.Context(), benchmark, 2, func(_ measure.Turn, run func() error) error { return run() })
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range result.Metrics {
				if f.Unit.Deterministic() {
					measured[benchmark.Name+" "+f.Name] = min(f.Values[0][0], f.Values[0][1])
				}
			}
		})
	}
	if *update {
		record(t, measured)
	}
	compare(t, measured)
}

func compare(t *testing.T, measured map[string]float64) {
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
			t.Errorf("%s: no cost is recorded; run with -update", name)
			continue
		}
		// Other goroutines make a few allocations.
		if most := cost*1.1 + 0.3; value > most {
			t.Errorf("%s: %.5g, want at most %.5g", name, value, most)
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
