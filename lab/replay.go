package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// replayVersion is the version of the format of saved findings.
const replayVersion = 1

// saved is a finding in a file.
type saved struct {
	Version  int      `json:"version"`
	Check    string   `json:"check"`
	Message  string   `json:"message"`
	Schedule Schedule `json:"schedule"`
	// Steps are the steps of the scenario that run. A file without steps, such as one of flyball lab, is of all steps.
	Steps []StepRef `json:"steps,omitempty"`
	// Accepted, if set, says why the finding is known and does not fail the test, and until when.
	Accepted *Acceptance `json:"accepted,omitempty"`
}

// An Acceptance is the reason for which a finding does not fail the test. A user writes it into the file of the finding.
type Acceptance struct {
	Reason string `json:"reason"`
	// Until is a day such as 2027-03-31, after which the finding fails again.
	Until string `json:"until"`
}

// isInForce reports whether the acceptance has not ended. It returns an error if the acceptance is not complete.
func (a *Acceptance) isInForce(now time.Time) (bool, error) {
	const example = `such as "accepted": {"reason": "see issue 7", "until": "2027-03-31"}`
	if strings.TrimSpace(a.Reason) == "" {
		return false, errors.New("the acceptance has no reason: say why the finding is known, " + example)
	}
	if a.Until == "" {
		return false, errors.New("the acceptance has no end: name the last day, " + example)
	}
	until, err := time.Parse(time.DateOnly, a.Until)
	if err != nil {
		return false, fmt.Errorf("the acceptance ends on %q, which is no day: write the year, the month and the day, %s", a.Until, example)
	}
	return now.Before(until.AddDate(0, 0, 1)), nil
}

// Save writes the finding into a file of a directory, which need not exist, and returns the path of the file. The name of
// the file depends on the check, the schedule and the steps. Save keeps the acceptance that a user has written into the file.
func (f *Finding) Save(dir string) (string, error) {
	s := f.saved()
	path := filepath.Join(dir, s.fileName())
	if before, err := readSaved(path); err == nil {
		s.Accepted = before.Accepted
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, append(content, '\n'), 0o644)
}

// saved returns the content of the file of a finding, without an acceptance.
func (f *Finding) saved() *saved {
	return &saved{Version: replayVersion, Check: f.Check, Message: f.Message, Schedule: f.Schedule, Steps: f.Steps}
}

// fileName returns the name of the file of a finding.
func (s *saved) fileName() string {
	h := fnv.New32a()
	content, _ := json.Marshal(s.Schedule) // Save has the error
	h.Write(content)
	for _, step := range s.Steps {
		fmt.Fprint(h, step.N, ",")
	}
	return fmt.Sprintf("%s-%08x%s", strings.ReplaceAll(s.Check, " ", "-"), h.Sum32(), savedSuffix)
}

// savedSuffix ends the names of the files of findings.
const savedSuffix = ".json"

// ReadSchedule returns the schedule of a file without steps: a file of a finding of [ExploreProgram], or of a person.
func ReadSchedule(path string) (Schedule, error) {
	s, err := readSaved(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(s.Schedule) == 0 {
		return nil, fmt.Errorf("%s: the schedule is empty", path)
	}
	if len(s.Steps) > 0 {
		return nil, fmt.Errorf("%s: the file names steps of a Go test, which go test replays: delete \"steps\" from the file to run its schedule with another scenario", path)
	}
	return s.Schedule, nil
}

func readSaved(path string) (s saved, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("not a finding of the lab: %w", err)
	}
	if s.Version != replayVersion {
		return s, fmt.Errorf("the file has version %d, and this lab reads version %d: delete the file and explore again", s.Version, replayVersion)
	}
	return s, nil
}

// readFile reads a saved finding of this test. A file without steps gets all steps of the scenario.
func (e *explorer) readFile(path string) (saved, error) {
	s, err := readSaved(path)
	if len(s.Steps) == 0 {
		s.Steps = e.refs()
	}
	return s, err
}

// files returns the paths of the saved findings of this test.
func (e *explorer) files() (paths []string) {
	entries, err := os.ReadDir(e.directory())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), savedSuffix) {
			paths = append(paths, filepath.Join(e.directory(), entry.Name()))
		}
	}
	return paths
}

// readAccepted learns which findings do not fail the test. The replay of a file says if the file is wrong.
func (e *explorer) readAccepted() {
	for _, path := range e.files() {
		s, err := e.readFile(path)
		if err != nil || s.Accepted == nil || s.Schedule.normalize(&e.conditions) != nil {
			continue
		}
		if ok, err := s.Accepted.isInForce(time.Now()); ok && err == nil {
			e.accepted = append(e.accepted, s)
		}
	}
}

// isAccepted reports whether a finding is one that does not fail the test: of the same check, with the same message or the same schedule.
func (e *explorer) isAccepted(f *Finding) bool {
	name := f.saved().fileName()
	return slices.ContainsFunc(e.accepted, func(s saved) bool {
		return s.Check == f.Check && (s.Message == f.Message || s.fileName() == name)
	})
}

// replayFiles replays the saved findings of this test, each in a subtest with the name of its file. A finding that still exists fails the
// test. It reports whether none does.
func (e *explorer) replayFiles() bool {
	paths := e.files()
	return len(paths) == 0 || e.subtest("REPLAY", func() {
		for _, path := range paths {
			e.subtest(strings.TrimSuffix(filepath.Base(path), savedSuffix), func() {
				if err := e.replayFile(path); err != nil {
					e.t.Errorf("%s: %v", path, err)
				}
			})
		}
	})
}

// replayFile replays a saved finding. It returns an error if the finding still exists and is not accepted, or if the file proves nothing.
func (e *explorer) replayFile(path string) error {
	s, err := e.readFile(path)
	if err != nil {
		return err
	}
	if err := s.Schedule.normalize(&e.conditions); err != nil {
		return err
	}
	accepted := false
	if s.Accepted != nil {
		if accepted, err = s.Accepted.isInForce(time.Now()); err != nil {
			return err
		}
	}
	if s.Check == panicked || s.Check == stuckRun {
		fmt.Fprintf(os.Stderr, "lab: replaying %s\n", path) // the run may end the process
	}
	var f *Finding
	if other := e.withSteps(s.Steps, func() { f, err = e.replay(s.Schedule) }); other != nil {
		return other
	}
	switch {
	case err != nil:
		return err
	case f == nil && s.Accepted != nil:
		e.t.Logf("%s: the accepted finding is gone: delete the acceptance, and the next one fails the test", path)
		return nil
	case f == nil:
		return nil
	case accepted && f.Check == s.Check:
		e.t.Logf("%s: accepted until %s: %s", path, s.Accepted.Until, s.Accepted.Reason)
		s.Message = f.Message
		e.accepted = append(e.accepted, s)
		return nil
	}
	err = fmt.Errorf("%s: %s\n\n%s%s", f.Check, f.Message, f.Story, e.savePage(f))
	switch {
	case accepted:
		return fmt.Errorf("the accepted finding is one of the check %q, and this is another: %w", s.Check, err)
	case s.Accepted != nil:
		return fmt.Errorf("the finding was accepted until %s (%s), and still exists: %w", s.Accepted.Until, s.Accepted.Reason, err)
	}
	return err
}

// replay runs the schedule of a file, and again if nothing is found and the scenario does not leave out that check. It
// returns an error if a fault did not take place.
func (e *explorer) replay(s Schedule) (*Finding, error) {
	r := e.run(s, clean{})
	switch {
	case r.finding != nil:
		return r.finding, nil
	case !r.counts:
		return nil, errors.New("the operator no longer comes to the point of a fault, so the file proves nothing: delete it and explore again")
	}
	if slices.Contains(e.scenario.Without, replayed) {
		return nil, nil
	}
	return e.again(&r), nil
}
