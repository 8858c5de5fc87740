// Bench measures Flyball and controller-runtime side by side: both do the same
// jobs by turns, in one process, with the same objects from the same server.
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

	"flyball.dev/bench/jobs"
	"flyball.dev/bench/measure"
	"flyball.dev/bench/world"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the command line says.
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

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	match := f.String("run", "", "do only the jobs whose name matches this `regexp`")
	f.IntVar(&s.rounds, "rounds", 5, "how often each side does a job")
	f.IntVar(&s.n, "n", 10_000, "how many objects a cache holds; other numbers follow")
	f.IntVar(&s.large, "large", 0, "fill one more cache with that many pods, such as 100000")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "use the server that this `file` names, in a namespace of its own, instead of starting one")
	f.StringVar(&s.json, "json", "", "also write everything that was measured to this `file`")
	f.StringVar(&s.profile, "profile", "", "write a CPU profile of each job's last round on each side to this `directory`")
	f.BoolVar(&s.list, "list", false, "say which jobs there are, and do nothing")
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
		return s, errors.New("flags only, and positive numbers; see --help")
	}
	return s, nil
}

func run(ctx context.Context) error {
	klog.SetLogger(logr.Discard())
	if jobs.HasErrand() {
		return jobs.RunErrand(ctx)
	}
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(s.jobs(nil)) == 0 {
		return fmt.Errorf("--run: no job has a name that matches %q; --list says which there are", s.match)
	}
	if s.list {
		for _, job := range s.jobs(nil) {
			fmt.Printf("%s\t%s\n", job.Name, job.About)
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
	report, err := s.measure(ctx, s.jobs(server))
	return errors.Join(err, server.Close(), s.write(report))
}

// jobs returns the jobs that are to be done.
func (s settings) jobs(server *world.Server) []measure.Job {
	all := jobs.All(jobs.Options{N: s.n, Large: s.large, Budget: 200 * time.Millisecond, Server: server})
	return slices.DeleteFunc(all, func(j measure.Job) bool { return !s.match.MatchString(j.Name) })
}

func (s settings) server(ctx context.Context) (*world.Server, error) {
	if s.kubeconfig == "" {
		return world.StartServer(ctx)
	}
	kubeconfig, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return world.NewServer(ctx, kubeconfig)
}

// prepare makes what is to be written in the end, so that nothing is measured in
// vain.
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

// measure does the jobs and writes what came of each as soon as it is known. A
// job that fails does not keep the others from being done.
func (s settings) measure(ctx context.Context, jobs []measure.Job) (report, error) {
	r := report{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Rounds: s.rounds, N: s.n}
	var errs []error
	for i, job := range jobs {
		fmt.Fprintf(os.Stderr, "[%d/%d] %s ", i+1, len(jobs), job.Name)
		began := time.Now()
		result, err := measure.Run(ctx, job, s.rounds, s.around)
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
	measure.WriteVerdict(os.Stdout, r.Results)
	return r, errors.Join(errs...)
}

// around shows that a turn was done, and profiles it if that is wanted.
func (s settings) around(t measure.Turn, run func() error) error {
	defer fmt.Fprint(os.Stderr, ".")
	if s.profile == "" || t.Round < t.Rounds {
		return run()
	}
	name := strings.ReplaceAll(t.Job, "/", "-") + "." + t.Side + ".cpu"
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

// write writes the report where it is wanted.
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
