package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
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
	// Accepted, if set, says why the finding is known and does not fail the test, and until when.
	Accepted *Acceptance `json:"accepted,omitempty"`
}

// An Acceptance is the reason for which a finding does not fail the test. A user writes it into the file of the finding.
type Acceptance struct {
	Reason string `json:"reason"`
	// Until is a day such as 2027-03-31, after which the finding fails again.
	Until string `json:"until"`
}

// Save writes the finding into a file of a directory, which need not exist, and returns the path of the file. The name of
// the file depends on the check and the schedule.
func (f *Finding) Save(dir string) (string, error) {
	content, err := json.MarshalIndent(saved{Version: replayVersion, Check: f.Check, Message: f.Message, Schedule: f.Schedule}, "", "  ")
	if err != nil {
		return "", err
	}
	h := fnv.New32a()
	schedule, _ := json.Marshal(f.Schedule)
	h.Write(schedule)
	name := fmt.Sprintf("%s-%08x.json", strings.ReplaceAll(f.Check, " ", "-"), h.Sum32())
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, append(content, '\n'), 0o644)
}

// ReadSchedule returns the schedule of a file that [Finding.Save] or a person has written.
func ReadSchedule(path string) (Schedule, error) {
	s, err := readSaved(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(s.Schedule) == 0 {
		return nil, fmt.Errorf("%s: the schedule is empty", path)
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

// replayFiles replays the saved findings of this test. A finding that still exists fails the test.
func (e *explorer) replayFiles() {
	e.t.Helper()
	paths, err := filepath.Glob(filepath.Join(e.directory(), "*.json"))
	if err != nil {
		e.t.Fatal(err)
	}
	for _, path := range paths {
		if err := e.replayFile(path); err != nil {
			e.t.Errorf("%s: %v", path, err)
		}
	}
}

// replayFile replays a saved finding. It returns an error if the finding still exists, or if the file proves nothing.
func (e *explorer) replayFile(path string) error {
	s, err := readSaved(path)
	if err != nil {
		return err
	}
	if err := s.Schedule.normalize(&e.conditions); err != nil {
		return err
	}
	if s.Check == panicked {
		fmt.Fprintf(os.Stderr, "lab: replaying %s\n", path) // the panic may end the process
	}
	r := e.run(s.Schedule, clean{})
	switch {
	case r.finding == nil && !r.counts:
		return fmt.Errorf("the operator no longer comes to the point of a fault, so the file proves nothing: delete it and explore again")
	case r.finding == nil:
		if r.finding = e.again(&r); r.finding == nil {
			return nil
		}
	}
	if a := s.Accepted; a != nil {
		until, err := time.Parse(time.DateOnly, a.Until)
		if err != nil {
			return fmt.Errorf("the end of the acceptance: %w", err)
		}
		if time.Now().Before(until.AddDate(0, 0, 1)) && a.Reason != "" && r.finding.Check == s.Check {
			e.t.Logf("%s: accepted until %s: %s", path, a.Until, a.Reason)
			return nil
		}
	}
	return fmt.Errorf("%s: %s\n\n%s", r.finding.Check, r.finding.Message, r.finding.Story)
}
