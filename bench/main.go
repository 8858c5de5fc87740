// Bench measures Flyball and controller-runtime side by side: both run the same benchmarks in turn,
// in one process, with the same objects from the same server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"flyball.dev/bench/benchmarks"
	"flyball.dev/bench/fixture"
	"flyball.dev/bench/measure"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	match      *regexp.Regexp
	rounds     int
	n          int
	large      int
	kubeconfig string
	json       string
	profile    string
	list       bool
}

// parse parses the command line. The error is flag.ErrHelp if only the usage is wanted, which is
// then printed.
func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	match := f.String("run", "", "run only the benchmarks whose name matches this `regexp`")
	f.IntVar(&s.rounds, "rounds", 5, "how many times each side runs a benchmark")
	f.IntVar(&s.n, "n", 10_000, "number of objects in a cache; other numbers are derived from it")
	f.IntVar(&s.large, "large", 0, "also fill a cache with that many pods, such as 100000")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "use the server of this kubeconfig `file`, in a namespace of its own, instead of starting one")
	f.StringVar(&s.json, "json", "", "also write all values to this `file`")
	f.StringVar(&s.profile, "profile", "", "write a CPU profile of each benchmark's last round on each side to this `directory`")
	f.BoolVar(&s.list, "list", false, "list the benchmarks and exit")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print("Bench measures Flyball and controller-runtime side by side.\n\nUsage: go run -C bench . [flags]\n\n")
			f.SetOutput(os.Stdout)
			f.PrintDefaults()
		}
		return s, err
	}
	var err error
	if s.match, err = regexp.Compile(*match); err != nil {
		return s, fmt.Errorf("--run: %w", err)
	}
	if f.NArg() > 0 || s.rounds < 1 || s.n < 1 || s.large < 0 {
		return s, errors.New("accepts no arguments, and only positive numbers; see --help")
	}
	return s, nil
}

// run runs the selected benchmarks and prints their results, or, as a child process of a benchmark,
// runs that child.
func run(ctx context.Context) error {
	klog.SetLogger(logr.Discard())
	if benchmarks.IsChild() {
		return benchmarks.RunChild(ctx)
	}
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(s.benchmarks(nil)) == 0 {
		return fmt.Errorf("--run: no benchmark matches %q; see --list", s.match)
	}
	if s.list {
		for _, benchmark := range s.benchmarks(nil) {
			fmt.Printf("%s\t%s\n", benchmark.Name, benchmark.About)
		}
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	server, err := s.server(ctx)
	if err != nil {
		return err
	}
	report, err := s.measure(ctx, s.benchmarks(server))
	return errors.Join(err, server.Close(), s.write(report))
}

// benchmarks returns the benchmarks that --run selects.
func (s settings) benchmarks(server *fixture.Server) []measure.Benchmark {
	all := benchmarks.All(benchmarks.Options{N: s.n, Large: s.large, Budget: 200 * time.Millisecond, Server: server})
	return slices.DeleteFunc(all, func(b measure.Benchmark) bool { return !s.match.MatchString(b.Name) })
}

func (s settings) server(ctx context.Context) (*fixture.Server, error) {
	if s.kubeconfig == "" {
		return fixture.StartServer(ctx)
	}
	kubeconfig, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return fixture.NewServer(ctx, kubeconfig)
}

// prepare creates the output files, so that a wrong path is found before anything is measured.
func (s settings) prepare() error {
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o777); err != nil {
			return err
		}
	}
	return s.write(report{})
}

// report is everything that was measured.
type report struct {
	Go      string           `json:"go"`
	System  string           `json:"system"`
	CPUs    int              `json:"cpus"`
	Rounds  int              `json:"rounds"`
	N       int              `json:"n"`
	Results []measure.Result `json:"results"`
}

// measure runs the benchmarks and writes each result as soon as it is known. If a benchmark fails,
// the others still run.
func (s settings) measure(ctx context.Context, benchmarks []measure.Benchmark) (report, error) {
	r := report{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Rounds: s.rounds, N: s.n}
	var errs []error
	for i, benchmark := range benchmarks {
		fmt.Fprintf(os.Stderr, "[%d/%d] %s ", i+1, len(benchmarks), benchmark.Name)
		began := time.Now()
		result, err := measure.Run(ctx, benchmark, s.rounds, s.around)
		fmt.Fprintf(os.Stderr, " %.1fs\n", time.Since(began).Seconds())
		if ctx.Err() != nil {
			return r, errors.New("interrupted")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.Results = append(r.Results, result)
		if err := measure.Write(os.Stdout, result); err != nil {
			return r, err
		}
	}
	measure.WriteSummary(os.Stdout, r.Results)
	return r, errors.Join(errs...)
}

// around shows progress, and profiles the last round if --profile is set.
func (s settings) around(t measure.Turn, run func() error) error {
	defer fmt.Fprint(os.Stderr, ".")
	if s.profile == "" || t.Round < t.Rounds {
		return run()
	}
	name := strings.ReplaceAll(t.Benchmark, "/", "-") + "." + t.Side + ".cpu"
	file, err := os.Create(filepath.Join(s.profile, name))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// write writes the report to the file of --json.
func (s settings) write(r report) error {
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.json, append(text, '\n'), 0o666)
}
