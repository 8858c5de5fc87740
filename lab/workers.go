package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// With -flyball.explore, schedules run in child processes: the test binary again, one for each processor. An operator that panics in a
// goroutine of its own, or that never lets its bubble be quiet, ends a child. The search goes on with the next schedule.

// canHaveWorkers: Windows passes no files to child processes.
const canHaveWorkers = runtime.GOOS != "windows"

// workerVariable has the shard of a child process as JSON.
const workerVariable = "FLYBALL_LAB_WORKER"

// shard is the part of the schedules that a child process runs: each Of-th one from From on.
type shard struct {
	Test     string // the subtest of the exploration; the others of the test run nothing
	From, Of int
	Journal  string // a path
}

// shardOfProcess returns the shard of this process, or nil.
func shardOfProcess() *shard {
	text := os.Getenv(workerVariable)
	if text == "" {
		return nil
	}
	s := &shard{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		panic(fmt.Sprintf("lab: %s: %v", workerVariable, err))
	}
	return s
}

// attempt is what a child process says about a schedule.
type attempt struct {
	N         int // of the schedule
	Schedule  Schedule
	Counts    bool
	Signature uint64
	Accepted  bool
	Finding   *Finding
	Unreduced string // the message of the finding before it was shrunk
	Page      string // the file of the finding, if pages are written

	err error // of the child
}

// of returns the schedules of a shard with their numbers.
func (s *shard) of(plans iter.Seq[Schedule]) iter.Seq2[int, Schedule] {
	return func(yield func(int, Schedule) bool) {
		n := 0
		for schedule := range plans {
			if n >= s.From && (n-s.From)%s.Of == 0 && !yield(n, schedule) {
				return
			}
			n++
		}
	}
}

// work runs the schedules of a shard, and writes an attempt about each. The parent ends the process, or ends itself.
func (e *explorer) work(s *shard) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	out := json.NewEncoder(os.NewFile(3, "attempts"))
	e.journal = openJournal(s.Journal)
	report := &Report{}
	for n, schedule := range s.of(e.plans(e.families(e.points()))) {
		known, accepted := len(report.Findings), report.Accepted
		r := e.attempt(schedule)
		a := attempt{N: n, Schedule: schedule, Counts: r.counts, Signature: r.signature}
		e.judge(report, r.finding)
		a.Accepted = report.Accepted > accepted
		if len(report.Findings) > known {
			a.Finding = report.Findings[known]
			a.Unreduced, a.Page = a.Finding.unreduced, e.savePage(a.Finding)
		}
		if out.Encode(a) != nil {
			return // the parent has gone
		}
	}
	e.journal.close()
}

// searchInProcesses is search for a time, in child processes.
func (e *explorer) searchInProcesses(enough int) *Report {
	ctx, cancel := context.WithTimeout(e.ctx, *exploreFor)
	defer cancel()
	folder := e.t.TempDir() // for the journals
	report, p := &Report{}, e.points()
	tried := newCoverage(p, e.families(p))
	attempts := make(chan attempt)
	done := e.readProgress()
	var children sync.WaitGroup
	shards := make([]shard, runtime.GOMAXPROCS(0))
	for i := range shards {
		shards[i] = shard{Test: e.t.Name(), From: done.Schedules + i, Of: len(shards), Journal: filepath.Join(folder, fmt.Sprint(i))}
		children.Go(func() { shards[i].supervise(ctx, attempts) })
	}
	go func() {
		children.Wait()
		close(attempts)
	}()
	for a := range attempts {
		if a.err != nil {
			e.t.Error(a.err)
			continue
		}
		e.add(a, report, tried)
		if len(report.Findings) >= enough {
			cancel()
		}
	}
	done.Schedules = slices.MinFunc(shards, func(a, b shard) int { return a.From - b.From }).From
	e.writeProgress(done)
	report.late = report.Schedules+report.Unreached == 0
	report.Runs, report.Coverage = len(e.seen), tried.report()
	return report
}

// add adds an attempt to the report and the coverage.
func (e *explorer) add(a attempt, report *Report, tried *coverage) {
	if !a.Counts {
		report.Unreached++
		return
	}
	report.Schedules++
	e.seen[a.Signature] = true
	tried.add(a.Schedule)
	if a.Accepted {
		report.Accepted++
	}
	f := a.Finding
	switch {
	case f == nil || report.has(f.Check, f.Message) || a.Unreduced != "" && report.has(f.Check, a.Unreduced):
	case e.isAccepted(f):
		report.Accepted++
	default:
		f.unreduced, f.page = a.Unreduced, a.Page
		report.Findings = append(report.Findings, f)
	}
}

// supervise runs child processes for a shard until the context ends, or there are no more schedules. A child that crashes has a finding,
// and the next one begins after its schedule. In the end, From is the next schedule.
func (s *shard) supervise(ctx context.Context, attempts chan<- attempt) {
	for {
		output, err := s.runChild(ctx, attempts)
		if err == nil || ctx.Err() != nil {
			return
		}
		f, errJournal := readJournal(s.Journal)
		if errJournal != nil || f == nil {
			attempts <- attempt{err: fmt.Errorf("lab: a process of the exploration: %w\n%s", err, output)}
			return
		}
		os.Remove(s.Journal) // the next child may end before it writes its own
		attempts <- attempt{N: s.From, Schedule: f.Schedule, Counts: true, Finding: f}
		s.From += s.Of
	}
}

// runChild runs a child process until it or the context ends, and moves From behind its attempts. It returns the last output of the child.
func (s *shard) runChild(ctx context.Context, attempts chan<- attempt) (output string, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	last := &tail{}
	cmd := exec.CommandContext(ctx, program, childFlags(s.Test)...)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), workerVariable+"="+string(text)), []*os.File{w}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = last, last, time.Second
	stdin, err := cmd.StdinPipe() // closed when this process ends, also by a signal
	if err == nil {
		err = cmd.Start()
	}
	w.Close()
	if err != nil {
		return "", err
	}
	defer stdin.Close()
	in := json.NewDecoder(bufio.NewReader(r))
	for {
		var a attempt
		if err := in.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				attempts <- attempt{err: fmt.Errorf("lab: a process of the exploration: %w", err)}
			}
			break
		}
		attempts <- a
		s.From = a.N + s.Of
	}
	err = cmd.Wait()
	return last.String(), err
}

// childFlags returns the flags of a child process for a subtest: the flags of this process, except those of package testing.
func childFlags(test string) []string {
	elements := strings.Split(test, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	flags := []string{"-test.run=" + strings.Join(elements, "/"), "-test.timeout=0"}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") && f.Name != "flyball.explore" && f.Name != "flyball.coverage" {
			flags = append(flags, "-"+f.Name+"="+f.Value.String())
		}
	})
	return flags
}

// tail keeps the last output of a process.
type tail struct{ text []byte }

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }
